"""The event loop's clock, and the time that the machine was suspended."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Callable

import anyio
import pytest
import trio

from kshare.net import clock
from kshare.net.clock import loop_clock, suspended_s


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


def test_suspension_is_the_difference_between_two_system_clocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readings = {7: 1000.0}
    monkeypatch.setattr(clock, "_THROUGH_SUSPENSION", 7)
    monkeypatch.setattr(time, "clock_gettime", readings.__getitem__)
    monkeypatch.setattr(time, "monotonic", lambda: 900.0)
    before = suspended_s()
    readings[7] += 60.0
    assert suspended_s() - before == 60.0


def test_no_suspension_is_measured_while_awake() -> None:
    # Any delay between the two readings makes a single result smaller.
    before, after = (max(suspended_s() for _ in range(100)) for _ in range(2))
    assert abs(after - before) < 0.01


def test_suspension_is_zero_on_systems_without_such_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_THROUGH_SUSPENSION", None)
    assert suspended_s() == 0.0
