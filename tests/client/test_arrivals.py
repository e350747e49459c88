"""Fetched records are verified when they are handed out: invalid ones are released without affecting others."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable

import pytest

from kshare.client.holdings import Holdings
from kshare.engine.events import Damaged, Event
from kshare.engine.reporter import Reporter
from kshare.protocol import record_header
from kshare.protocol.messages.share_fetch_response import AcquiredRecords, PartitionData
from kshare.protocol.record_builder import BatchBuilder
from kshare.state.acks import PartitionAcks
from kshare.state.lease import RELEASE
from kshare.state.lease_timers import LeaseTimers
from kshare.state.session import AckRange
from kshare.state.unseen_releases import FIRST_S

TOPIC = b"t" * 16
RELEASED = b"\x02"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def held(clock: Clock | None = None) -> Holdings:
    lease_timers = LeaseTimers(can_renew=True, max_lease_s=100.0)
    return Holdings(max_records=100, lease_timers=lease_timers, clock=clock or Clock())


def after_the_pause(holdings: Holdings, clock: Clock) -> None:
    """The time at which what was kept back is released."""
    clock.now = holdings.book.wake_at
    holdings.book.check_leases()


def batch(first: int, records: int) -> bytearray:
    builder = BatchBuilder(base_offset=first, leader_epoch=1)
    for offset in range(first, first + records):
        builder.append(b"%d" % offset, timestamp=0, offset=offset)
    return bytearray(builder.build())


def cut_short(data: bytearray) -> None:
    struct.pack_into(">i", data, record_header.LENGTH_AT, 3)


def from_another_time(data: bytearray) -> None:
    data[record_header.MAGIC_AT] = 9


def changed_under_way(data: bytearray) -> None:
    data[-1] ^= 1


@pytest.mark.parametrize("breaking", [cut_short, from_another_time, changed_under_way])
def test_invalid_records_are_released_and_do_not_affect_other_partitions(
    breaking: Callable[[bytearray], None], caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    holdings, broken, good = held(clock), PartitionAcks((TOPIC, 0)), PartitionAcks((TOPIC, 1))
    data = batch(5, 4)
    breaking(data)
    holdings.book.acquire(
        "orders", broken, PartitionData(0, records=data, acquired_records=[AcquiredRecords(5, 8, 1)]), 30, 0.0
    )
    holdings.book.acquire(
        "orders",
        good,
        PartitionData(1, records=batch(0, 2), acquired_records=[AcquiredRecords(0, 1, 1)]),
        30,
        0.0,
    )
    with caplog.at_level(logging.ERROR, "kshare.client"):
        found = holdings.next_batch()
    assert found is not None
    assert [record.value for record in found] == [b"0", b"1"]
    assert broken.take(renewals=False) == []
    assert holdings.next_batch() is None
    after_the_pause(holdings, clock)
    assert clock.now == FIRST_S
    assert broken.take(renewals=False) == [AckRange(5, 8, RELEASED)]
    assert not good.has_decided
    (said,) = caplog.messages
    assert said.startswith("4 records of orders[0] (offsets 5 to 8): can't be verified; released: ")


def test_invalid_batch_does_not_affect_the_rest_of_its_partition() -> None:
    clock = Clock()
    holdings, acks = held(clock), PartitionAcks((TOPIC, 0))
    broken = batch(0, 2)
    changed_under_way(broken)
    acquired = [AcquiredRecords(0, 1, 1), AcquiredRecords(2, 4, 1)]
    holdings.book.acquire(
        "orders", acks, PartitionData(0, records=broken + batch(2, 3), acquired_records=acquired), 30, 0.0
    )
    found = holdings.next_batch()
    assert found is not None
    assert [record.offset for record in found] == [2, 3, 4]
    after_the_pause(holdings, clock)
    assert acks.take(renewals=False) == [AckRange(0, 1, RELEASED)]


def test_offsets_without_a_record_are_gaps() -> None:
    holdings, acks = held(), PartitionAcks((TOPIC, 0))
    records = batch(3, 1) + batch(6, 1)
    holdings.book.acquire(
        "orders",
        acks,
        PartitionData(0, records=records, acquired_records=[AcquiredRecords(3, 7, 1)]),
        30,
        0.0,
    )
    found = holdings.next_batch()
    assert found is not None
    assert [record.offset for record in found] == [3, 6]
    assert acks.take(renewals=False) == [AckRange(4, 5, b"\x00"), AckRange(7, 7, RELEASED)]


def test_unverifiable_records_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """A response may be verified twice: when accepted records are skipped, and when it is handed out."""
    events: list[Event] = []
    lease_timers = LeaseTimers(can_renew=True, max_lease_s=100.0)
    holdings = Holdings(
        max_records=100, lease_timers=lease_timers, clock=lambda: 0.0, reporter=Reporter(events.append)
    )
    holdings.memory.remember((TOPIC, 0), 1, 0, 0)
    acks = PartitionAcks((TOPIC, 0))
    data = PartitionData(
        0, records=batch(0, 3) + batch(3, 3)[:-1], acquired_records=[AcquiredRecords(0, 5, 1)]
    )
    holdings.book.acquire("orders", acks, data, 30, 0.0)
    found = holdings.next_batch()
    assert found is not None
    assert [record.offset for record in found] == [1, 2]
    (damaged,) = [event for event in events if isinstance(event, Damaged)]
    assert damaged[:3] == ("orders", 0, 3)
    (said,) = caplog.messages
    assert said.startswith(
        "3 records of orders[0] (offsets 3 to 5): can't be verified; released: 84 bytes are left over"
    )


def test_impossible_acquired_range_creates_no_lease(caplog: pytest.LogCaptureFixture) -> None:
    """With a flipped bit, it would request more memory than there is."""
    holdings, acks = held(), PartitionAcks((TOPIC, 0))
    rows = [AcquiredRecords(0, 1, 1), AcquiredRecords(2, 2**62, 1)]
    holdings.book.acquire(
        "orders", acks, PartitionData(0, records=batch(0, 2), acquired_records=rows), 30, 0.0
    )
    assert [(lease.first, lease.last) for lease in acks.leases] == [(0, 1)]
    (said,) = caplog.messages
    assert (
        said == "orders[0]: invalid response, partly ignored: "
        f"{2**62 - 1} offsets acquired at once, from 2 to {2**62}"
    )


def test_records_released_while_waiting_are_not_verified(caplog: pytest.LogCaptureFixture) -> None:
    holdings, acks = held(), PartitionAcks((TOPIC, 0))
    data = batch(0, 2)
    changed_under_way(data)
    holdings.book.acquire(
        "orders", acks, PartitionData(0, records=data, acquired_records=[AcquiredRecords(0, 1, 1)]), 30, 0.0
    )
    acks.leases[0].decide_held(RELEASE)
    assert holdings.next_batch() is None
    assert caplog.messages == []
