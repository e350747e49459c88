"""How long records are held: from when they were asked for, through suspension, and never woken for in vain."""

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
    """Two clocks in the hand: the loop's, and how long it stood still."""

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
        """First and last offset, and delivery count."""
        acks = self.partition_acks.setdefault((TOPIC, partition), PartitionAcks((TOPIC, partition)))
        builder = BatchBuilder(base_offset=acquired[0][0], leader_epoch=1)
        for first, last, _ in acquired:
            for offset in range(first, last + 1):
                builder.append(b"x" * 1000, timestamp=0, offset=offset)
        data = PartitionData(
            partition,
            records=bytes(builder.build()),
            acquired_records=[AcquiredRecords(*one) for one in acquired],
        )
        self.holdings.book.acquire("orders", acks, data, LOCK_S, sent_at)

    def leases(self, partition: int = 0) -> list[Lease]:
        return self.partition_acks[TOPIC, partition].leases


def test_nothing_is_fetched_while_the_user_works_on_after_its_lock_expired() -> None:
    """It would wait unseen until its own lock is over: five times, and the broker archives it."""
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
def test_who_takes_longer_for_a_record_than_another_may_wait_gets_none_in_advance(
    seconds: float, fetches_ahead: bool
) -> None:
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


def test_what_came_again_leaves_nothing_to_wake_for() -> None:
    """Its first lease stayed in the books when all of it was lost to the second: a look each millisecond for ever."""
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


def test_what_another_broker_gave_and_ran_out_is_not_woken_for_by_the_others() -> None:
    """Its own task may hang in a request for half a minute."""
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


def test_a_suspended_machine_does_not_stop_locks() -> None:
    rig = Rig()
    rig.bring((0, 9, 1))
    batch = rig.holdings.next_batch()
    assert batch is not None
    assert lease_of(batch).deadline == pytest.approx(128.5)
    rig.asleep += 20.0
    rig.now += 1.0
    rig.holdings.book.check_leases()
    assert lease_of(batch).deadline == pytest.approx(108.5), "on the loop's clock, as records say"
    rig.asleep += 20.0
    rig.holdings.book.check_leases()
    assert lease_of(batch).count(LOST) == 10


def test_what_waited_while_the_machine_slept_is_not_handed_out() -> None:
    rig = Rig()
    rig.bring((0, 9, 1))
    rig.asleep += 40.0
    assert rig.holdings.next_batch() is None


def test_an_answer_that_was_under_way_while_the_machine_slept_is_as_old_as_it_is() -> None:
    rig = Rig()
    sent = rig.holdings.book.clock.stamp()
    rig.asleep += 40.0
    rig.now += 1.0
    rig.bring((0, 9, 1), sent_at=rig.holdings.book.clock.time_of(sent))
    assert rig.holdings.next_batch() is None
    rig.holdings.book.check_leases()
    assert rig.leases() == []


def test_clocks_are_read_one_after_another_and_that_is_no_suspension() -> None:
    rig = Rig()
    rig.bring((0, 9, 1))
    for noise in (-0.2, 0.001, 0.0, -3.0, 0.009):
        rig.asleep = 5.0 + noise
        rig.holdings.book.check_leases()
    assert rig.leases()[0].deadline == pytest.approx(128.5)


def test_a_renewal_counts_from_when_it_was_sent() -> None:
    rig = Rig()
    rig.bring((0, 9, 1))
    batch = rig.holdings.next_batch()
    assert batch is not None
    acks = rig.partition_acks[TOPIC, 0]
    rig.now = 120.0
    rig.holdings.book.check_leases()
    assert acks.take(renewals=True)
    rig.now = 127.0
    rig.holdings.book.on_answered(acks, 0, 120.0)
    assert lease_of(batch).deadline == pytest.approx(148.5)


def test_what_went_back_unseen_since_its_lock_was_over_is_not_fetched_again_for_nobody() -> None:
    rig = Rig()
    rig.bring((0, 9, 1), sent_at=60.0)
    assert rig.holdings.next_batch() is None
    rig.bring((0, 9, 2), sent_at=60.0)
    rig.holdings.book.check_leases()
    assert not rig.holdings.wants_more
    assert rig.holdings.next_batch() is None
    rig.holdings.waiters = 1
    assert rig.holdings.wants_more


def test_bytes_are_those_of_what_is_undecided() -> None:
    rig = Rig(max_bytes=20_000)
    assert rig.holdings.bytes_left == 20_000
    rig.bring((0, 9, 1), (10, 14, 2))
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
