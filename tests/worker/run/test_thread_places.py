"""Functions that go on in their threads though they were cancelled keep their places, so there are never more."""

from __future__ import annotations

import logging
import threading

import anyio
import pytest

from kshare.testing import run_worker
from kshare.worker import Worker
from kshare.worker.run.thread_places import ThreadPlaces


@pytest.mark.lengthy
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_there_are_never_more_threads_than_places(backend: str, caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(group="g", concurrency=2, time_limit=5, breaker=None)
    go_on = threading.Event()
    calls: list[str] = []

    @worker.handler("orders")
    def ship(value: str) -> None:
        calls.append(value)
        if not go_on.is_set():
            go_on.wait(60)

    with run_worker(worker, backend=backend) as running:  # type: ignore[arg-type]
        running.produce("orders", *(b"%d" % number for number in range(10)))
        running.wait_until(lambda: len(calls) == 2)
        for _ in range(5):
            running.advance(6)
        assert len(calls) == 2
        counts = running.counts["ship"]
        assert (counts.cancelled, counts.dead) == (
            2,
            0,
        )  # those that wait weren't cancelled: they haven't begun
        go_on.set()
        running.wait_until(lambda: running.counts["ship"].done == 10)
    told = [
        record
        for record in caplog.records
        if "threads still run functions that were cancelled" in record.getMessage()
    ]
    # At once, and the sum of all others.
    assert [line.levelno for line in told] == [logging.ERROR] * 2


@pytest.mark.anyio
async def test_a_call_that_is_cancelled_before_it_begins_leaves_its_place() -> None:
    """The place was never free again: after as many of these as there are places, the handler stood still."""
    places = ThreadPlaces(1, on_full=lambda: None)
    calls: list[str] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        await places.run(calls.append, ("cancelled",), [])
    assert calls == []
    with anyio.fail_after(30):
        for _ in range(3):
            await places.run(calls.append, ("called",), [])
    assert calls == ["called"] * 3


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_calls_that_are_cancelled_at_any_time_leave_as_many_places() -> None:
    places = ThreadPlaces(2, on_full=lambda: None)
    running = most = 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.001)
        with lock:
            running -= 1

    async def call(after: float) -> None:
        with anyio.move_on_after(after):
            await places.run(work, (), [])

    with anyio.fail_after(60):
        for number in range(100):
            async with anyio.create_task_group() as tasks:
                for turn in range(4):
                    tasks.start_soon(call, (number + turn) % 10 * 0.0003)
        for _ in range(3):
            await places.run(work, (), [])
    assert most == 2
