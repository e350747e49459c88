"""Records that were processed, and couldn't be acknowledged, are counted and logged."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from kshare.engine.events import Acknowledged
from kshare.errors import ConnectionLost
from kshare.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest
from kshare.state.lease import ACCEPT, RELEASE
from kshare.state.session import AckRange
from kshare.summary_log import SummaryLog
from kshare.testing import run_worker
from kshare.worker import Worker
from kshare.worker.settle.refusals import note_refusals
from kshare.worker.watch.counts import Counts

CAUSE = "were processed, but couldn't be acknowledged in time: they may be redelivered"


def test_only_what_was_accepted_and_not_confirmed_counts(caplog: pytest.LogCaptureFixture) -> None:
    handler: Any = SimpleNamespace(counts=Counts(), summary=SummaryLog(logging.getLogger("kshare.worker")))
    acknowledged = (AckRange(3, 5, bytes([ACCEPT])), AckRange(7, 8, bytes([RELEASE, ACCEPT])))
    note_refusals(handler, Acknowledged("orders", 0, acknowledged, None, False))
    assert handler.counts.lost == 0
    note_refusals(handler, Acknowledged("orders", 0, acknowledged, ConnectionLost("gone"), True))
    assert handler.counts.lost == 4
    assert f"3 records of orders[0] (offsets 3 to 5): {CAUSE}" in caplog.text
    assert "gone" in caplog.text


@pytest.mark.lengthy
def test_connection_that_breaks_before_the_acknowledgement(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(group="g")
    runs: list[str] = []

    @worker.handler("orders")
    async def ship(value: str) -> None:
        if not runs:
            for request in (ShareAcknowledgeRequest, ShareFetchRequest):
                running.broker.faults.add(request, when=has_acknowledgements, cut_after=5)
        runs.append(value)

    with run_worker(worker) as running:
        running.produce("orders", b"1")
        running.wait_until(lambda: len(runs) == 2 or CAUSE in caplog.text)
        running.wait_until(lambda: running.counts["ship"].lost == 1)
    assert CAUSE in caplog.text


def has_acknowledgements(request: ShareAcknowledgeRequest | ShareFetchRequest) -> bool:
    return any(
        partition.acknowledgement_batches for topic in request.topics for partition in topic.partitions
    )
