"""Ranges that a query's member holds: decisions on offsets are applied to the lease that contains them."""

from __future__ import annotations

from kshare.engine.reporter import Reporter
from kshare.protocol.messages.share_fetch_response import AcquiredRecords, PartitionData
from kshare.spark.driver.custody import Custody
from kshare.spark.driver.decisions import Decisions
from kshare.spark.driver.offset_sets import PartitionRange
from kshare.spark.driver.range_holdings import RangeHoldings
from kshare.spark.ranges import Token
from kshare.state.acks import PartitionAcks
from kshare.state.lease_timers import LeaseTimers
from kshare.state.session import AckRange

ORDERS = (b"o" * 16, 0)


def test_the_rest_of_a_lease_is_accepted_after_one_of_its_rows_was_redelivered() -> None:
    """One micro-batch released a row, and the next has other rows of the same lease."""
    custody = Custody()
    custody.complete(Token())
    lease_timers = LeaseTimers(can_renew=True, max_lease_s=100.0)
    holdings = RangeHoldings(custody, lease_timers=lease_timers, clock=lambda: 0.0, reporter=Reporter())
    acks = PartitionAcks(ORDERS)

    def acquire(first: int, last: int, count: int) -> None:
        data = PartitionData(0, acquired_records=[AcquiredRecords(first, last, count)])
        holdings.book.acquire("orders", acks, data, 30.0, 0.0)

    acquire(0, 99, 1)
    holdings.apply(
        Decisions(
            accept=[PartitionRange(ORDERS, 0, 4), PartitionRange(ORDERS, 6, 49)],
            release=[PartitionRange(ORDERS, 5, 5)],
        )
    )
    acks.take(renewals=False)
    holdings.book.on_outcomes(acks.on_response(0))
    acquire(5, 5, 2)
    acquire(100, 109, 1)
    holdings.apply(Decisions(accept=[PartitionRange(ORDERS, 50, 104)]))
    assert acks.take(renewals=False) == [AckRange(50, 99, b"\x01"), AckRange(100, 104, b"\x01")]


def test_records_that_are_lost_are_read_again() -> None:
    """A drain ended with a lag if records were lost with their session before they were in a micro-batch."""
    custody = Custody()
    custody.complete(Token())
    lease_timers = LeaseTimers(can_renew=True, max_lease_s=100.0)
    holdings = RangeHoldings(custody, lease_timers=lease_timers, clock=lambda: 0.0, reporter=Reporter())
    sessions = holdings.book.open_session()
    acks = sessions[ORDERS] = PartitionAcks(ORDERS)
    for first, last in ((0, 99), (100, 149)):
        data = PartitionData(0, acquired_records=[AcquiredRecords(first, last, 1)])
        holdings.book.acquire("orders", acks, data, 30.0, 0.0)
    holdings.apply(Decisions(accept=[PartitionRange(ORDERS, 0, 99)]))
    assert holdings.reached == {ORDERS: 150}
    holdings.book.end_session(sessions)
    assert holdings.reached == {ORDERS: 100}


def test_a_topic_that_was_created_again_begins_at_its_start() -> None:
    custody = Custody()
    custody.complete(Token())
    lease_timers = LeaseTimers(can_renew=True, max_lease_s=100.0)
    holdings = RangeHoldings(custody, lease_timers=lease_timers, clock=lambda: 0.0, reporter=Reporter())
    again = (b"p" * 16, 0)
    for partition, last in ((ORDERS, 99), (again, 4)):
        data = PartitionData(0, acquired_records=[AcquiredRecords(0, last, 1)])
        holdings.book.acquire("orders", PartitionAcks(partition), data, 30.0, 0.0)
    assert holdings.reached == {ORDERS: 100, again: 5}


def test_responses_are_small_enough_to_be_received_into_the_same_memory() -> None:
    lease_timers = LeaseTimers(can_renew=True, max_lease_s=100.0)
    holdings = RangeHoldings(Custody(), lease_timers=lease_timers, clock=lambda: 0.0, reporter=Reporter())
    assert holdings.capacity_in_bytes(brokers=1) == holdings.capacity_in_bytes(brokers=3) == 16 * 1024 * 1024


def test_a_trigger_with_records_waits_for_no_more_than_what_is_ready() -> None:
    custody = Custody()
    custody.complete(Token())
    lease_timers = LeaseTimers(can_renew=True, max_lease_s=100.0)
    holdings = RangeHoldings(custody, lease_timers=lease_timers, clock=lambda: 0.0, reporter=Reporter())
    with holdings.trigger_waiting():
        assert not holdings.wants_only_ready, "it needs some records"
        data = PartitionData(0, acquired_records=[AcquiredRecords(0, 99, 1)])
        holdings.book.acquire("orders", PartitionAcks(ORDERS), data, 30.0, 0.0)
        assert holdings.wants_only_ready
    assert not holdings.wants_only_ready, "fetching ahead must not ask again and again"
