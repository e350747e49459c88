"""The share-partition: sequences of acquisitions and acknowledgements, and the resulting states."""

from __future__ import annotations

import pytest

from kshare.broker.request_error import RequestError
from kshare.broker.share_state.state_batches import StateBatch
from kshare.broker.shares.delivery import ArchiveCause, GroupLimits, RecordState
from kshare.broker.shares.share_partition import AckRange, ArchivedRange, Change, SharePartition
from kshare.protocol.acknowledge_types import AcknowledgeType
from kshare.protocol.error_codes import ErrorCode

NOW = 1000
LIMITS = GroupLimits()


class Stage:
    """A share-partition over a log of equal batches, with one clock."""

    def __init__(self, batch: int = 10, count: int = 10, limits: GroupLimits = LIMITS) -> None:
        self.shared = SharePartition(0)
        self.spans = [(first, first + batch - 1) for first in range(0, batch * count, batch)]
        self.limits = limits
        self.now = NOW

    def acquire(
        self, most: int = 500, member: str = "m", batch_size: int = 500, is_strict: bool = False
    ) -> list[tuple[int, int, int]]:
        begin = self.shared.window.next_available()
        if not self.shared.can_acquire(self.limits):
            return []
        acquired = self.shared.acquire(
            member,
            [span for span in self.spans if span[1] >= begin],
            max_records=most,
            batch_size=batch_size,
            is_strict=is_strict,
            limits=self.limits,
            now=self.now,
        )
        return [(each.first, each.last, each.count) for each in acquired]

    def say(self, kind: AcknowledgeType, first: int, last: int, member: str = "m") -> Change:
        change = self.shared.acknowledge(member, [AckRange(first, last, (kind,))], self.limits)
        self.shared.apply(change, self.now, self.limits)
        return change

    def refusal(self, *ranges: tuple[int, int], member: str = "m") -> ErrorCode:
        with pytest.raises(RequestError) as caught:
            self.shared.acknowledge(
                member, [AckRange(*each, (AcknowledgeType.ACCEPT,)) for each in ranges], self.limits
            )
        return caught.value.code


def test_new_records_are_acquired_in_whole_batches() -> None:
    stage = Stage()
    assert stage.acquire(most=15) == [(0, 19, 1)]
    assert stage.acquire(most=1, batch_size=5) == [(20, 29, 1)]
    assert stage.acquire(most=25, batch_size=15) == [(30, 49, 1), (50, 59, 1)]


def test_record_limit_mode_may_end_within_a_batch() -> None:
    stage = Stage()
    assert stage.acquire(most=4, is_strict=True) == [(0, 3, 1)]
    assert stage.acquire(most=10, is_strict=True) == [(4, 9, 1), (10, 13, 1)]
    assert stage.acquire(most=2) == [(14, 19, 1)]


def test_released_records_are_acquired_first() -> None:
    stage = Stage()
    stage.acquire(most=20)
    stage.say(AcknowledgeType.RELEASE, 2, 3)
    stage.say(AcknowledgeType.RELEASE, 15, 15)
    assert stage.acquire(most=10) == [(2, 3, 2), (15, 15, 2), (20, 29, 1)]


def test_start_offset_moves_past_settled_records() -> None:
    stage = Stage()
    stage.acquire(most=20)
    stage.say(AcknowledgeType.ACCEPT, 5, 9)
    assert stage.shared.start_offset == 0
    stage.say(AcknowledgeType.REJECT, 0, 4)
    assert stage.shared.start_offset == 10
    assert stage.shared.window.settled_count() == 0
    stage.say(AcknowledgeType.GAP, 10, 19)
    assert stage.shared.start_offset == 20


def test_one_invalid_range_fails_the_whole_acknowledgement() -> None:
    stage = Stage()
    stage.acquire(most=20)
    stage.say(AcknowledgeType.RELEASE, 5, 5)
    assert stage.refusal((0, 4), (5, 6)) == ErrorCode.INVALID_RECORD_STATE
    assert stage.refusal((0, 4), (15, 25)) == ErrorCode.INVALID_REQUEST
    assert stage.refusal((0, 4), (4, 6)) == ErrorCode.INVALID_RECORD_STATE
    assert stage.refusal((0, 4), member="other") == ErrorCode.INVALID_RECORD_STATE
    stage.say(AcknowledgeType.ACCEPT, 0, 4)
    assert stage.shared.start_offset == 5


def test_acknowledgements_before_the_start_offset_are_ignored() -> None:
    stage = Stage()
    stage.acquire(most=10)
    stage.say(AcknowledgeType.ACCEPT, 0, 9)
    assert not stage.say(AcknowledgeType.RELEASE, 0, 9).settled
    assert stage.refusal((9, 10)) == ErrorCode.INVALID_RECORD_STATE


def test_locks_expire_separately() -> None:
    stage = Stage(limits=GroupLimits(lock_ms=100))
    stage.acquire(most=10)
    stage.now += 60
    stage.acquire(most=10)
    stage.say(AcknowledgeType.RENEW, 0, 0)
    assert stage.shared.next_expiry() == NOW + 100
    stage.now += 40
    change = stage.shared.expire(stage.now, stage.limits)
    assert change.batches == [StateBatch(1, 9, RecordState.AVAILABLE, 1)]
    stage.shared.apply(change, stage.now, stage.limits)
    assert stage.shared.next_expiry() == NOW + 160
    assert stage.acquire(most=9) == [(1, 9, 2)]


@pytest.mark.parametrize(("since_4_2", "next_count"), [(True, 2), (False, 1)])
def test_delivery_count_after_its_session_ended(since_4_2: bool, next_count: int) -> None:
    stage = Stage(limits=GroupLimits(since_4_2=since_4_2))
    stage.acquire(most=10)
    stage.shared.apply(stage.shared.release("m", stage.limits), stage.now, stage.limits)
    assert stage.acquire(most=10) == [(0, 9, next_count)]


def test_records_are_archived_after_their_last_delivery() -> None:
    stage = Stage(limits=GroupLimits(deliveries=2))
    stage.acquire(most=10)
    assert stage.say(AcknowledgeType.RELEASE, 0, 9).archived == []
    stage.acquire(most=10)
    assert stage.say(AcknowledgeType.REJECT, 0, 0).archived == [ArchivedRange(0, 0, 2, ArchiveCause.REJECTED)]
    assert stage.say(AcknowledgeType.RELEASE, 1, 9).archived == [
        ArchivedRange(1, 9, 2, ArchiveCause.TOO_MANY_DELIVERIES)
    ]
    assert stage.shared.start_offset == 10


@pytest.mark.parametrize(
    ("limit", "shares"),
    [
        (2, [40]),
        (3, [40, 1, 1]),
        (4, [40, 20, 1]),
        (6, [40, 40, 20, 10, 1]),
        (10, [40] * 4 + [20, 10, 5, 2, 1]),
    ],
)
def test_fewer_records_are_acquired_together_as_delivery_counts_grow(limit: int, shares: list[int]) -> None:
    stage = Stage(batch=40, count=1, limits=GroupLimits(deliveries=limit))
    stage.acquire()
    for share in shares:
        stage.say(AcknowledgeType.RELEASE, stage.shared.start_offset, stage.shared.start_offset)
        change = stage.shared.release("m", stage.limits)
        stage.shared.apply(change, stage.now, stage.limits)
        first = stage.shared.window.next_available()
        acquired = stage.acquire()
        assert (acquired[0][0], acquired[-1][1] - first + 1) == (first, share)


def test_full_window_acquires_nothing_until_its_start_moves() -> None:
    stage = Stage(limits=GroupLimits(in_flight=15))
    assert stage.acquire() == [(0, 19, 1)]
    assert stage.acquire() == []
    stage.say(AcknowledgeType.ACCEPT, 1, 19)
    assert stage.acquire() == []
    stage.say(AcknowledgeType.ACCEPT, 0, 0)
    assert stage.acquire(most=1) == [(20, 29, 1)]
    stage.say(AcknowledgeType.RELEASE, 25, 26)
    stage.acquire()
    assert not stage.acquire()


def test_stored_state_is_restored() -> None:
    known = [StateBatch(10, 14, RecordState.ACKNOWLEDGED, 1), StateBatch(20, 29, RecordState.AVAILABLE, 3)]
    shared = SharePartition(5, known)
    assert [(first, last, d.state, d.count) for first, last, d in shared.window.runs()] == [
        (5, 9, RecordState.AVAILABLE, 0),
        (10, 14, RecordState.ACKNOWLEDGED, 1),
        (15, 19, RecordState.AVAILABLE, 0),
        (20, 29, RecordState.AVAILABLE, 3),
    ]
    assert SharePartition(5, [StateBatch(0, 7, RecordState.ARCHIVED, 1)]).start_offset == 8


def test_start_offset_follows_the_log_start() -> None:
    stage = Stage()
    stage.acquire(most=20)
    stage.say(AcknowledgeType.RELEASE, 10, 14)
    assert stage.shared.move_start(13)
    assert stage.acquire(most=10) == [(13, 14, 2), (20, 29, 1)]
    stage.say(AcknowledgeType.ACCEPT, 15, 19)
    assert not stage.shared.move_start(13)
    stage.shared.apply(stage.shared.release("m", stage.limits), stage.now, stage.limits)
    assert stage.shared.move_start(95)
    assert stage.acquire(most=1) == [(95, 99, 1)]
