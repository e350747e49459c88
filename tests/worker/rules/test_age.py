"""`dead_letters_after`: old records are given up, by handlers of every kind."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from kshare import ConfigError
from kshare.testing import run_worker
from kshare.worker import Delivery, SampleRecord, Worker


@pytest.mark.lengthy
@pytest.mark.parametrize("takes", ["payload", "delivery", "batch"])
def test_records_that_waited_for_too_long_are_not_processed(takes: str) -> None:
    """Handlers that take only the payload are called without asking the rules, unless one may apply."""
    worker = Worker(group="g", concurrency=1, dead_letters="dead", dead_letters_after=30)
    called: list[bytes] = []

    async def work(value: bytes) -> None:
        called.append(value)
        await anyio.sleep(40)

    async def work_with_delivery(value: bytes, delivery: Delivery) -> None:
        await work(value)

    async def work_on_batch(values: list[bytes]) -> None:
        await work(values[0])

    if takes == "batch":
        worker.batch_handler("jobs", batch_size=1)(work_on_batch)
    else:
        worker.handler("jobs")(work if takes == "payload" else work_with_delivery)
    with run_worker(worker) as running:
        running.produce("jobs", b"1", b"2")
        running.wait_until(lambda: called == [b"1"])
        running.advance(41)
        running.wait_until_settled()
        [dead] = running.records("dead")
        [counts] = running.counts.values()
    assert (dead.value, called) == (b"2", [b"1"])
    assert dict(dead.headers)["__dlq.errors.message"] == b"older than 30 s"
    assert (counts.done, counts.dead) == (1, 1)


@pytest.mark.anyio
async def test_trials_say_so() -> None:
    worker = Worker("kafka.example:9092", group="g", dead_letters_after=60)

    @worker.handler("jobs")
    async def work(value: bytes) -> None:
        raise AssertionError("it isn't called")

    trial = await worker.test(SampleRecord(timestamp=1_000))
    assert (trial.outcome, trial.decision.rule) == ("rejected", "too old")


@pytest.mark.parametrize("seconds", [-1, "soon", True])
def test_ages_that_make_no_sense_are_refused(seconds: Any) -> None:
    with pytest.raises(ConfigError, match="dead_letters_after must be"):
        Worker("kafka.example:9092", group="g", dead_letters_after=seconds)
