"""Cancels a function at each of its awaits, one after the other, until it completes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from anyio.lowlevel import checkpoint


async def cancelled_at_each_await(work: Callable[[], Awaitable[None]], *, leap: int | None = None) -> None:
    """The number of event-loop steps before cancelling grows by one each time; with `leap`, also by 1/leap of it."""
    done = anyio.Event()

    async def work_through() -> None:
        await work()
        done.set()

    steps = 0
    while not done.is_set():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work_through)
            for _ in range(steps):
                await checkpoint()
            tasks.cancel_scope.cancel()
        steps += 1 + (steps // leap if leap else 0)
