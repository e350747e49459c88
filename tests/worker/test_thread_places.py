"""Functions that go on in their threads though they were cancelled keep their places, so there are never more."""

from __future__ import annotations

import logging
import threading

import pytest

from kshare.testing import run_worker
from kshare.worker import Worker


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
        one for one in caplog.records if "threads still run functions that were cancelled" in one.getMessage()
    ]
    # At once, and the sum of all others.
    assert [one.levelno for one in told] == [logging.ERROR] * 2
