"""Does something for many records at once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from itertools import islice
from typing import Any, TypeVar

import anyio
from anyio.lowlevel import checkpoint

ItemT = TypeVar("ItemT", bound=tuple[Any, ...])

_AT_ONCE = 500
"""More at once would block the event loop for long."""


async def for_each(items: Iterable[ItemT], act: Callable[..., Coroutine[Any, Any, None]]) -> None:
    """Call `act` with each of these arguments, and wait until all calls have ended. One that takes long delays nobody
    but those that wait for it."""
    waiting = iter(items)

    async def go_on(arguments: ItemT) -> None:
        await act(*arguments)
        for following in waiting:
            await checkpoint()  # so that no task has all of them to itself
            await act(*following)

    async with anyio.create_task_group() as tasks:
        for arguments in [*islice(waiting, _AT_ONCE)]:
            tasks.start_soon(go_on, arguments)
