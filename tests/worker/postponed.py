"""Handlers whose annotations are text, and partly only known to type checkers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kshare.worker import Delivery


@dataclass
class Parcel:
    number: int


async def ship(order: Parcel, delivery: Delivery) -> None: ...
async def ship_generic(order: dict[str, Any], delivery: Delivery) -> Awaitable[None] | None: ...
async def ship_batch(orders: list[Parcel], deliveries: list[Delivery]) -> None: ...
