"""A worker for `kshare worker check` to look at."""

from __future__ import annotations

from kshare.worker import Worker
from tools.screens.world import GROUP, TOPIC

worker = Worker(group=GROUP, dead_letters="orders.dead", order="key")


@worker.handler(TOPIC)
async def ship(order: str) -> None: ...


@worker.handler("parcels")
async def pack(parcel: bytes) -> None: ...
