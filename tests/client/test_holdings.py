"""How long records are held: deadlines, suspension of the machine, and no needless wake-ups."""

from __future__ import annotations

import math

import pytest

from kshare.client.config import DEFAULT_MAX_BYTES
from kshare.client.holdings import Holdings
from kshare.client.record import lease_of
from kshare.protocol.messages.share_fetch_response import AcquiredRecords, PartitionData
from kshare.protocol.record_builder import BatchBuilder
from kshare.state.acks import PartitionAcks
from kshare.state.lease import ACCEPT, LOST, Lease
from kshare.state.lease_timers import LeaseTimers

TOPIC = b"t" * 16
LOCK_S = 30.0


class Rig:
    """A consumer's holdings with two manual clocks: the loop's, and the time spent suspended."""

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.now = 100.0
        self.asleep = 5.0
        self.lease_timers = LeaseTimers(can_renew=True, max_lease_s=1000.0)
        self.holdings = Holdings(
            max_records=1000,
            lease_timers=self.lease_timers,
            clock=lambda: self.now,
            suspended=lambda: self.asleep,
            max_bytes=max_bytes,
        )
        self.partition_acks = self.holdings.book.open_session()

    def bring(self, *acquired: tuple[int, int, int], sent_at: float = 100.0, partition: int = 0) -> None:
        """Acquire records; each range has a first offset, a last offset and a delivery count."""
        acks = self.partition_acks.setdefault((TOPIC, partition), PartitionAcks((TOPIC, partition)))
        builder = BatchBuilder(base_offset=acquired[0][0], leader_epoch=1)
        for first, last, _ in acquired:
            for offset in range(first, last + 1):
                builder.append(b"x" * 1000, timestamp=0, offset=offset)
        data = PartitionData(
            partition,
            records=bytes(builder.build()),
            acquired_records=[AcquiredRecords(*span) for span in acquired],
        )
        self.holdings.book.acquire("orders", acks, data, LOCK_S, sent_at)

    def leases(self, partition: int = 0) -> list[Lease]:
        return self.partition_acks[TOPIC, partition].leases


def test_nothing_is_fetched_while_the_user_works_past_the_locks_expiry() -> None:
    """It would wait unprocessed until its own lock expires. After five times, the broker would archive it."""
    rig = Rig()
    rig.bring((0, 0, 1))
    assert rig.holdings.next_batch() is not None
    rig.now = 140.0
    rig.holdings.book.check_leases()
    assert rig.holdings.book.counter.undecided == 0
    assert not rig.holdings.wants_more
    rig.holdings.waiters = 1
    assert rig.holdings.next_batch() is None
    assert rig.holdings.wants_more


@pytest.mark.parametrize(("seconds", "fetches_ahead"), [(1.0, True), (25.0, False)])
def test_slow_users_get_no_records_in_advance(seconds: float, fetches_ahead: bool) -> None:
    rig = Rig()
    for number in range(3):
        rig.bring((number, number, 1), sent_at=rig.now)
        batch = rig.holdings.next_batch()
        assert batch is not None
        lease_of(batch).deadline = math.inf
        rig.now += seconds
        batch.accept()
    rig.bring((3, 3, 1), sent_at=rig.now)
    assert rig.holdings.next_batch() is not None
    rig.holdings.book.counter.undecided = 0
    assert rig.holdings.wants_more is fetches_ahead
    rig.holdings.waiters = 1
    assert rig.holdings.wants_more


def test_redelivered_records_cause_no_needless_wake_ups() -> None:
    """Their first lease used to stay in the books after all of it was lost to the second: a check each millisecond."""
    rig = Rig()
    rig.bring((0, 9, 1))
    first = rig.holdings.next_batch()
    assert first is not None
    rig.now = 110.0
    rig.bring((0, 9, 2), sent_at=110.0)
    assert lease_of(first).count(LOST) == 10
    again = rig.holdings.next_batch()
    assert again is not None
    looks = 0
    while rig.now < 500.0 and rig.lease_timers.wake_at < math.inf:
        looks += 1
        rig.now = max(rig.now + 0.001, rig.lease_timers.wake_at)
        rig.holdings.book.check_leases()
    assert looks <= 6
    assert len(rig.lease_timers) == 0


def test_expired_leases_of_another_broker_are_removed_by_any_check() -> None:
    """That broker's own task may hang in a request for half a minute."""
    rig = Rig()
    rig.bring((0, 9, 1))
    other_books = rig.holdings.book.open_session()
    assert rig.holdings.next_batch() is not None
    rig.partition_acks[TOPIC, 0].leases[0].decide(3, ACCEPT)
    lease = rig.leases()[0]
    rig.now = 200.0
    assert not other_books
    rig.holdings.book.check_leases()
    assert lease.count(LOST) == 10
    assert rig.lease_timers.wake_at == math.inf


def test_locks_expire_while_the_machine_is_suspended() -> None:
    rig = Rig()
    rig.bring((0, 9, 1))
    batch = rig.holdings.next_batch()
    assert batch is not None
    assert lease_of(batch).deadline == pytest.approx(128.5)
    rig.asleep += 20.0
    rig.now += 1.0
    rig.holdings.book.check_leases()
    assert lease_of(batch).deadline == pytest.approx(108.5), "deadlines are on the loop's clock"
    rig.asleep += 20.0
    rig.holdings.book.check_leases()
    assert lease_of(batch).count(LOST) == 10


def test_records_that_waited_through_a_suspension_are_not_handed_out() -> None:
    rig = Rig()
    rig.bring((0, 9, 1))
    rig.asleep += 40.0
    assert rig.holdings.next_batch() is None


def test_response_received_after_a_suspension_is_aged_by_it() -> None:
    rig = Rig()
    sent = rig.holdings.book.clock.stamp()
    rig.asleep += 40.0
    rig.now += 1.0
    rig.bring((0, 9, 1), sent_at=rig.holdings.book.clock.time_of(sent))
    assert rig.holdings.next_batch() is None
    rig.holdings.book.check_leases()
    assert rig.leases() == []


def test_differences_between_two_clock_readings_are_not_a_suspension() -> None:
    rig = Rig()
    rig.bring((0, 9, 1))
    for noise in (-0.2, 0.001, 0.0, -3.0, 0.009):
        rig.asleep = 5.0 + noise
        rig.holdings.book.check_leases()
    assert rig.leases()[0].deadline == pytest.approx(128.5)


def test_renewed_lock_counts_from_when_the_renewal_was_sent() -> None:
    rig = Rig()
    rig.bring((0, 9, 1))
    batch = rig.holdings.next_batch()
    assert batch is not None
    acks = rig.partition_acks[TOPIC, 0]
    rig.now = 120.0
    rig.holdings.book.check_leases()
    assert acks.take(renewals=True)
    rig.now = 127.0
    rig.holdings.book.on_responded(acks, 0, 120.0)
    assert lease_of(batch).deadline == pytest.approx(148.5)


def test_unprocessed_expired_records_are_not_fetched_again_without_a_waiter() -> None:
    rig = Rig()
    rig.bring((0, 9, 1), sent_at=60.0)
    assert rig.holdings.next_batch() is None
    rig.bring((0, 9, 2), sent_at=60.0)
    rig.holdings.book.check_leases()
    assert not rig.holdings.wants_more
    assert rig.holdings.next_batch() is None
    rig.holdings.waiters = 1
    assert rig.holdings.wants_more


def test_bytes_left_excludes_bytes_of_undecided_records() -> None:
    rig = Rig(max_bytes=20_000)
    assert rig.holdings.bytes_left == 20_000
    rig.bring((0, 9, 2), (10, 14, 1))
    rig.holdings.processing_rate.target = 1000
    batch = rig.holdings.next_batch()
    assert batch is not None
    assert rig.holdings.wants_more
    assert 4_000 < rig.holdings.bytes_left < 5_000
    rig.bring((0, 9, 1), partition=1)
    assert rig.holdings.bytes_left == 0
    assert not rig.holdings.wants_more
    batch.accept()
    assert 4_000 < rig.holdings.bytes_left < 5_000
    rig.holdings.book.lose(rig.partition_acks[TOPIC, 1])
    assert 14_000 < rig.holdings.bytes_left < 15_000
    rig.holdings.book.lose(rig.partition_acks[TOPIC, 0])
    assert rig.holdings.bytes_left == 20_000


def test_what_was_delivered_most_often_is_handed_out_first() -> None:
    """In the order of arrival, the same records could be given back unseen at each end, until they were archived."""
    rig = Rig()
    rig.bring((0, 2, 1), (3, 3, 4), (4, 4, 1), (5, 6, 4))
    rig.bring((0, 0, 5), partition=1)
    assert rig.holdings.most_delivered == 5
    order = []
    while (batch := rig.holdings.next_batch()) is not None:
        order.append((lease_of(batch).partition[1], [record.offset for record in batch]))
    assert order == [(1, [0]), (0, [3]), (0, [5, 6]), (0, [0, 1, 2]), (0, [4])]
    assert rig.holdings.most_delivered == 0
