"""Runs a few requests at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import anyio

from kshare.errors import KshareError

T = TypeVar("T")

_AT_ONCE = 8


async def side_by_side(do: Callable[[T], Awaitable[None]], items: Iterable[T]) -> None:
    """The first error ends all, and is raised as it is, not in an exception group."""
    limit = anyio.CapacityLimiter(_AT_ONCE)
    errors: list[KshareError] = []

    async def one(item: T) -> None:
        async with limit:
            try:
                await do(item)
            except KshareError as error:
                errors.append(error)
                tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for item in items:
            tasks.start_soon(one, item)
    if errors:
        raise errors[0]
