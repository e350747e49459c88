"""The event loop's clock, on both event loops."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable

import anyio
import pytest
import trio

from kshare.net.clock import loop_clock


@pytest.mark.anyio
async def test_it_is_the_event_loops_clock() -> None:
    before = anyio.current_time()
    assert before <= loop_clock()() <= anyio.current_time()


def test_trio_as_a_guest_of_asyncio_uses_trios_clock() -> None:
    async def guest() -> tuple[float, float, float]:
        return anyio.current_time(), loop_clock()(), anyio.current_time()

    async def host() -> None:
        ready: queue.SimpleQueue[object] = queue.SimpleQueue()
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()

        def done(outcome: object) -> None:
            ready.put(outcome)
            ended.set()

        def soon(call: Callable[[], object]) -> None:
            loop.call_soon_threadsafe(call)

        trio.lowlevel.start_guest_run(guest, run_sync_soon_threadsafe=soon, done_callback=done)
        async with asyncio.timeout(20):
            await ended.wait()
        outcome = ready.get_nowait()
        first, ours, last = outcome.unwrap()  # type: ignore[attr-defined]
        assert first <= ours <= last

    asyncio.run(host())
