"""Does something for many records at once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from itertools import islice
from typing import Any, TypeVar

import anyio

ItemT = TypeVar("ItemT", bound=tuple[Any, ...])

_AT_ONCE = 500
"""More at once would block the event loop for long."""


async def for_each(items: Iterable[ItemT], act: Callable[..., Coroutine[Any, Any, None]]) -> None:
    """Call `act` with each of these arguments, and wait until all calls have ended."""
    waiting = iter(items)
    while some := [*islice(waiting, _AT_ONCE)]:
        async with anyio.create_task_group() as tasks:
            for arguments in some:
                tasks.start_soon(act, *arguments)
