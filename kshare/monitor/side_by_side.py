"""Runs a few requests at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import anyio

from kshare.errors import KshareError

T = TypeVar("T")

_AT_ONCE = 8


async def side_by_side(
    do: Callable[[T], Awaitable[None]], items: Iterable[T], at_once: int = _AT_ONCE
) -> None:
    """They begin in this order. The first error ends all, and is raised as it is, not in an exception group."""
    following = iter(items)
    errors: list[KshareError] = []

    async def go_through() -> None:
        for item in following:
            try:
                await do(item)
            except KshareError as error:
                errors.append(error)
                tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for _ in range(at_once):
            tasks.start_soon(go_through)
    if errors:
        raise errors[0]
