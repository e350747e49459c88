"""Cancels work at each of its awaits, one after the other, until it gets through."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from anyio.lowlevel import checkpoint


async def cancelled_at_each_await(work: Callable[[], Awaitable[None]], *, leap: int | None = None) -> None:
    """After so many steps of the loop's, one more each time; with `leap`, also an n-th of them more."""
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
