"""Records in retry topics that no worker has written: they are never moved to topics that nobody reads."""

from __future__ import annotations

import pytest

from kshare.testing import run_worker
from kshare.worker import Retry, RetryTopics, Worker


@pytest.mark.lengthy
@pytest.mark.parametrize("dead_letters", [None, "dead"])
def test_a_record_in_a_retry_topic_without_headers(
    dead_letters: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(
        group="g",
        retry=Retry(attempts=3, delay=5.0),
        retry_topics=RetryTopics(tiers=(1.0, 10.0)),
        hold_up_to=0.001,
        dead_letters=dead_letters,
        breaker=None,
    )
    calls: list[bytes] = []

    @worker.handler("orders")
    async def fail(value: bytes) -> None:
        calls.append(value)
        raise ValueError

    with run_worker(worker) as running:
        running.produce("orders.retry.1s", b"stray")
        running.wait_until(lambda: len(calls) == 1)
        for _ in range(4):
            running.advance(6)
        running.wait_until(lambda: running.counts["fail"].dead == 1)
        running.wait_until_settled()
        assert calls == [b"stray"] * 3
        assert running.counts["fail"].moved == 0
        if dead_letters:
            assert [record.value for record in running.records("dead")] == [b"stray"]
    assert "records in retry topics that no worker has written" in caplog.text
