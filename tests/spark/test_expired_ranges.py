"""Ranges whose lock has expired aren't planned, because they are delivered to another member."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from kshare.engine.reporter import Reporter
from kshare.protocol.messages.share_fetch_response import AcquiredRecords, PartitionData
from kshare.spark.driver.custody import Custody
from kshare.spark.driver.offset_sets import PartitionRange
from kshare.spark.driver.range_holdings import RangeHoldings
from kshare.spark.ranges import Token
from kshare.spark.source import ShareStreamReader
from kshare.state.acks import PartitionAcks
from kshare.state.lease_timers import LeaseTimers
from kshare.testing import Broker
from tests.spark.driven import DrivenQuery

ORDERS = (b"o" * 16, 0)
LOCK_S = 1.0


@pytest.mark.lengthy
def test_ranges_that_expired_while_the_process_was_stopped_are_not_planned() -> None:
    settings = {"group.share.min.record.lock.duration.ms": "1000"}
    with Broker(settings=settings) as broker:
        query = DrivenQuery(broker)
        lock = {"share.record.lock.duration.ms": str(int(1000 * LOCK_S))}
        broker.set_group_config(query.group, {"share.auto.offset.reset": "earliest", **lock})
        query.produce(10)
        reader = query.reader(settle="checkpoint", maxRecordsPerTrigger="5", maxWaitMs="60000")
        try:
            start = reader.initialOffset()
            first = reader.latestOffset(start, None)
            reader.partitions(start, first)
            second = reader.latestOffset(first, None)
            reader.commit(first)
            query.produce(5)
            reader.partitions(first, second)
            eventually(lambda: (reader.reportLatestOffset() or {})["fresh"] == 5, "the next are acquired")
            stand_still(reader, 1.5 * LOCK_S)
            third = Token.from_json(reader.latestOffset(second, None))
        finally:
            reader.stop()
    assert [(range_.first, range_.last, range_.delivery_count) for range_ in third.acquired] == [(10, 14, 2)]


def stand_still(reader: ShareStreamReader, seconds: float) -> None:
    """Block the member's event loop, as SIGSTOP does. What Spark asks meanwhile runs first afterwards."""
    assert reader._runner is not None
    portal = reader._runner._portal
    portal.start_task_soon(time.sleep, seconds)  # blocks intentionally


def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"didn't happen in time: {what}"
        time.sleep(0.02)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Stage:
    """Holdings of one partition, with a clock."""

    def __init__(self) -> None:
        self.custody = Custody()
        self.custody.complete(Token())
        self.clock = Clock()
        lease_timers = LeaseTimers(can_renew=True, max_lease_s=1000.0)
        self.holdings = RangeHoldings(
            self.custody, lease_timers=lease_timers, clock=self.clock, reporter=Reporter()
        )
        self.acks = PartitionAcks(ORDERS)

    def acquire(self, first: int, last: int, count: int = 1) -> None:
        data = PartitionData(0, acquired_records=[AcquiredRecords(first, last, count)])
        self.holdings.book.acquire("orders", self.acks, data, 30.0, self.clock.now)


def test_only_expired_ranges_are_dropped() -> None:
    stage = Stage()
    stage.acquire(0, 9)
    stage.clock.now = 20.0
    stage.acquire(10, 14)
    stage.holdings.drop_expired()
    assert stage.custody.fresh == 15
    stage.clock.now = 31.0
    stage.holdings.drop_expired()
    assert stage.custody.fresh == 5


def test_a_released_and_redelivered_row_is_not_lost_with_its_older_lease() -> None:
    stage = Stage()
    stage.acquire(0, 99)
    token = stage.custody.plan(50)
    assert token is not None
    stage.custody.settle_rows(PartitionRange(ORDERS, 5, 5), "release")
    stage.holdings.apply(stage.custody.complete(token))
    stage.acks.take(renewals=False)
    stage.holdings.book.on_outcomes(stage.acks.on_response(0))
    stage.clock.now = 20.0
    stage.acquire(5, 5, 2)
    assert stage.custody.fresh == 51
    stage.clock.now = 31.0
    (old,) = [lease for lease in stage.acks.leases if lease.first == 0]
    stage.holdings.on_lost(old, "expired")
    assert stage.custody.fresh == 1
