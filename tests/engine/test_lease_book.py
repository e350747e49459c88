"""How a holder of records is notified: of acquired records, of their outcomes, and in which order."""

from __future__ import annotations

import pytest

from kshare.engine.lease_book import LeaseBook
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages.share_fetch_response import AcquiredRecords, PartitionData
from kshare.state.acks import PartitionAcks
from kshare.state.lease import ACCEPT, LOST, RELEASE
from kshare.state.lease_timers import LeaseTimers
from kshare.state.session import AckRange
from tests.fakes.plain_holder import PlainHolder

PARTITION = (b"t" * 16, 3)
LOCK_S = 30.0
LAST_TIME = "acquired for the last time; records that aren't accepted won't be redelivered"


class Rig:
    def __init__(self) -> None:
        self.now = 100.0
        self.holder = PlainHolder()
        self.lease_timers = LeaseTimers(can_renew=True, max_lease_s=1000.0)
        self.book = LeaseBook(
            self.holder,
            lease_timers=self.lease_timers,
            clock=lambda: self.now,
            suspended=lambda: 0.0,
            listener=self.holder,
        )
        self.held = self.book.open_session()
        self.acks = self.held[PARTITION] = PartitionAcks(PARTITION)

    def acquire(self, *ranges: tuple[int, int], count: int = 1) -> None:
        acquired = [AcquiredRecords(first, last, count) for first, last in ranges]
        data = PartitionData(PARTITION[1], acquired_records=acquired)
        self.book.acquire("orders", self.acks, data, LOCK_S, self.now)

    def told(self) -> list[tuple[object, ...]]:
        told, self.holder.told = self.holder.told, []
        return told


def test_acquired_records_are_reported_without_overlapping_ranges() -> None:
    rig = Rig()
    rig.acquire((0, 9), (5, 12), (20, 29))
    assert rig.told() == [("acquired", "orders", [(0, 9), (20, 29)])]
    assert rig.book.counter.undecided == 20
    assert rig.book.topic_partition_of(PARTITION) == ("orders", 3)


def test_a_last_delivery_is_named_before_anybody_sees_the_record(caplog: pytest.LogCaptureFixture) -> None:
    """The record may crash the program, each time."""

    def said() -> list[str]:
        lines = [message.partition(": ")[::2] for message in caplog.messages]
        caplog.clear()
        assert all(text == f"{LAST_TIME}: delivery 3 of 3" for _, text in lines)
        return [place for place, _ in lines]

    rig = Rig()
    rig.acquire((0, 4), count=3)
    rig.acquire((5, 9), count=2)
    assert said() == [], "the limit isn't known yet"
    rig.book.learn_limit(3)
    assert said() == ["5 records of orders[3] (offsets 0 to 4)"]
    rig.book.learn_limit(3)
    other = Rig()
    other.book.learn_limit(3)
    other.acquire((20, 20), count=3)
    other.acquire((21, 29), count=2)
    assert said() == ["1 record of orders[3] (offset 20)"]


def test_last_deliveries_are_not_named_for_those_who_look_after_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Workers and redrives move such records: a line for each would be noise."""
    rig = Rig()
    rig.book.set_limit(3)
    rig.book.learn_limit(3)
    rig.acquire((0, 4), count=3)
    assert rig.book.unseen.limit == 3
    assert not caplog.messages


def test_a_limit_that_the_broker_does_not_tell_is_the_default(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    rig.book.learn_limit(None)
    rig.acquire((0, 0), count=4)
    assert not caplog.messages
    rig.acquire((1, 1), count=5)
    assert "delivery 5 of 5" in caplog.text


def test_confirmed_acknowledgement_is_reported() -> None:
    rig = Rig()
    rig.acquire((0, 9))
    rig.holder.leases[0].decide_held(ACCEPT)
    rig.acks.take(renewals=False)
    rig.book.on_responded(rig.acks, ErrorCode.NONE, rig.now)
    assert rig.told()[1:] == [("confirmed", [AckRange(0, 9, b"\x01")])]
    assert rig.acks.leases == []


def test_moved_leader_is_reported_while_the_lease_has_the_accepted_offsets() -> None:
    rig = Rig()
    rig.acquire((0, 9))
    rig.holder.leases[0].decide(4, ACCEPT)
    rig.acks.take(renewals=False)
    rig.book.on_responded(rig.acks, ErrorCode.NOT_LEADER_OR_FOLLOWER, rig.now)
    assert rig.told()[1:] == [("moved", 0)]
    assert rig.holder.leases[0].count(LOST) == 1


def test_waiting_records_are_released_handed_out_ones_renewed_and_expired_ones_lost() -> None:
    rig = Rig()
    rig.acquire((0, 9), (10, 19))
    rig.lease_timers.hand_out(rig.holder.leases[1], rig.now)
    rig.now += 0.7 * LOCK_S
    rig.book.check_leases()
    assert rig.told()[1:] == [("renewing", 10), ("released", 0)]
    rig.now += LOCK_S
    rig.book.check_leases()
    assert rig.told() == [("lost", 0, 0, "expired"), ("lost", 10, 10, "expired")]
    assert rig.book.counter.undecided == 0


def test_end_of_a_session_is_reported_before_its_losses() -> None:
    rig = Rig()
    rig.acquire((0, 9))
    rig.book.end_session(rig.held)
    assert rig.told()[1:] == [("session ended",), ("lost", 0, 10, "session")]
    assert rig.held == {}
    assert len(rig.lease_timers) == 0


@pytest.mark.parametrize("is_handed_out", [True, False])
def test_only_losses_of_handed_out_records_are_returned_by_the_next_commit(is_handed_out: bool) -> None:
    rig = Rig()
    rig.acquire((0, 9))
    if is_handed_out:
        rig.lease_timers.hand_out(rig.holder.leases[0], rig.now)
    rig.book.lose(rig.acks, "moved")
    with rig.book.commits.confirmation([]) as confirmation:
        assert [str(error) for _, error in confirmation.losses] == [
            "orders[3], 10 records between offsets 0 and 9: the leader of the partition moved; "
            "will be redelivered"
        ][: int(is_handed_out)]


def test_what_a_loop_accepts_too_late_is_for_the_next_commit() -> None:
    """The record had come again, and a commit waited for its release: it got the error, and the next one got none."""
    rig = Rig()
    rig.acquire((7, 7))
    first = rig.acks.leases[0]
    rig.book.lose(rig.acks)
    rig.acquire((7, 7), count=2)
    again = rig.acks.leases[0]
    again.decide(7, RELEASE)
    with rig.book.commits.confirmation([again]) as waiting:
        rig.book.on_lock_lost(first, [(7, 7)])
        assert not waiting.is_settled
        assert waiting.results == {}
    with rig.book.commits.confirmation([]) as following:
        assert following.results[PARTITION] is not None
