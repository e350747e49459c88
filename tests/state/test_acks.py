"""Acknowledgements of a partition: decisions, the ranges that are sent, and outcomes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.protocol.error_codes import ErrorCode
from kshare.state.acks import AckOutcome, PartitionAcks
from kshare.state.lease import (
    ACCEPT,
    GAP,
    HELD,
    LOST,
    REJECT,
    RELEASE,
    RENEW,
    SETTLED,
    Lease,
    UndecidedCounter,
)
from kshare.state.session import AckRange
from tests.fakes.acknowledged import Broker, P, acks


def test_undecided_records_are_not_sent() -> None:
    book, _ = acks((0, 9))
    assert not book.has_decided
    assert book.take(renewals=False) == []


def test_whole_lease_is_one_range_with_one_type() -> None:
    book, (lease,) = acks((100, 8099))
    assert lease.decide_held(ACCEPT) == 8000
    assert book.has_decided
    assert book.take(renewals=False) == [AckRange(100, 8099, b"\x01")]


def test_mixed_types_are_one_range_with_a_type_for_each_offset() -> None:
    book, (lease,) = acks((10, 13))
    for offset, kind in zip(range(10, 14), (ACCEPT, RELEASE, REJECT, GAP), strict=True):
        assert lease.decide(offset, kind)
    assert book.take(renewals=False) == [AckRange(10, 13, b"\x01\x02\x03\x00")]


def test_held_records_split_the_ranges() -> None:
    book, (lease,) = acks((0, 9))
    for offset in (0, 1, 5, 9):
        lease.decide(offset, ACCEPT)
    assert book.take(renewals=False) == [
        AckRange(0, 1, b"\x01"),
        AckRange(5, 5, b"\x01"),
        AckRange(9, 9, b"\x01"),
    ]
    assert lease.count(HELD) == 6


def test_ranges_of_several_leases_ascend() -> None:
    book, (late, early) = acks((50, 59), (0, 9))
    late.decide_held(ACCEPT)
    early.decide_held(RELEASE)
    assert book.take(renewals=False) == [AckRange(0, 9, b"\x02"), AckRange(50, 59, b"\x01")]


@pytest.mark.parametrize(("kind", "is_renewal"), [(ACCEPT, False), (RENEW, True)])
def test_ranges_ascend_after_released_records_were_redelivered(kind: int, is_renewal: bool) -> None:
    book, (lease,) = acks((16, 20))
    for offset in (16, 18):
        lease.decide(offset, RELEASE)
    book.take(renewals=False)
    book.on_response(0)
    for again in (Lease(P, 16, 16, 2), Lease(P, 18, 18, 2)):
        book.add(again)
        again.decide_held(kind)
    lease.decide_held(kind)
    types = bytes([kind])
    assert book.take(renewals=is_renewal) == [AckRange(offset, offset, types) for offset in (16, 17, 18)] + [
        AckRange(19, 20, types)
    ]


@pytest.mark.parametrize("delivery_count", [1, 2])
def test_partly_redelivered_records_are_lost_to_the_oldest_lease(delivery_count: int) -> None:
    """Even if the broker reports a first delivery."""
    book, (lease,) = acks((0, 9))
    assert book.add(Lease(P, 2, 7, delivery_count)) == (6, [])
    assert book.add(Lease(P, 8, 8, delivery_count)) == (1, [])
    assert (lease.count(LOST), lease.undecided) == (7, 3)


def test_redelivered_records_are_lost_to_the_older_lease_only() -> None:
    book, (lease,) = acks((0, 9))
    for offset, kind in ((0, ACCEPT), (3, ACCEPT), (4, REJECT), (6, RENEW)):
        lease.decide(offset, kind)
    again = Lease(P, 2, 7, 2)
    refused = AckOutcome(P, (AckRange(3, 4, bytes([ACCEPT, REJECT])),), ErrorCode.INVALID_RECORD_STATE)
    assert book.add(again) == (6, [refused])
    assert not lease.decide(5, ACCEPT)
    assert (lease.count(LOST), lease.undecided) == (6, 3)
    lease.decide_held(ACCEPT)
    again.decide_held(ACCEPT)
    assert book.take(renewals=False) == [
        AckRange(first, last, b"\x01") for first, last in ((0, 1), (2, 7), (8, 9))
    ]


def test_renewing_one_record_renews_all_held_records_of_its_lease() -> None:
    book, (lease, _) = acks((0, 9), (10, 19))
    lease.decide(3, ACCEPT)
    lease.decide(5, RENEW)
    assert book.take(renewals=True) == [AckRange(0, 2, b"\x04"), AckRange(4, 9, b"\x04")]
    assert book.on_response(0)[0].renewed == (lease,)
    assert lease.count(HELD) == 9


def test_renewals_are_sent_separately() -> None:
    book, (lease,) = acks((0, 3))
    for offset, kind in enumerate((ACCEPT, RENEW, RENEW, ACCEPT)):
        lease.decide(offset, kind)
    assert book.take(renewals=True) == [AckRange(1, 2, b"\x04")]
    book.on_response(0)
    assert book.take(renewals=False) == [AckRange(0, 0, b"\x01"), AckRange(3, 3, b"\x01")]


def test_one_request_at_a_time() -> None:
    book, (lease,) = acks((0, 9))
    lease.decide(0, ACCEPT)
    book.take(renewals=False)
    lease.decide(1, ACCEPT)
    assert book.is_under_way
    assert book.take(renewals=False) == []
    book.on_response(0)
    assert book.take(renewals=False) == [AckRange(1, 1, b"\x01")]


def test_decision_can_be_changed_until_it_is_sent() -> None:
    book, (lease,) = acks((0, 0))
    assert lease.decide(0, ACCEPT)
    assert lease.decide(0, REJECT)
    assert book.take(renewals=False) == [AckRange(0, 0, b"\x03")]
    assert not lease.decide(0, ACCEPT)
    book.on_response(0)
    assert lease.count(SETTLED) == 1
    assert not lease.decide(0, ACCEPT)


def test_confirmed_renewal_is_held_again() -> None:
    book, (lease, other) = acks((0, 9), (10, 19))
    lease.decide_held(RENEW)
    other.decide_held(ACCEPT)
    book.take(renewals=True)
    assert book.on_response(0)[0].renewed == (lease,)
    assert lease.count(HELD) == 10


def test_decision_during_a_renewal_is_kept() -> None:
    book, (lease,) = acks((0, 3))
    lease.decide_held(RENEW)
    book.take(renewals=True)
    assert lease.decide(1, ACCEPT)
    book.on_response(0)
    assert lease.count(HELD) == 3
    assert book.take(renewals=False) == [AckRange(1, 1, b"\x01")]


def test_accepting_all_includes_pending_renewals() -> None:
    book, (lease,) = acks((0, 3))
    lease.decide_held(RENEW)
    book.take(renewals=True)
    assert lease.decide_held(ACCEPT) == 4
    book.on_response(0)
    assert book.take(renewals=False) == [AckRange(0, 3, b"\x01")]


def renew(book: PartitionAcks, broker: Broker) -> list[tuple[set[int], AckOutcome]]:
    """Send renewals until none is left; returns each outcome and the offsets of the request that led to it."""
    outcomes = []
    while ranges := book.take(renewals=True):
        offsets = {offset for range_ in ranges for offset in range(range_.first, range_.last + 1)}
        error = 0 if offsets <= broker.acquired else ErrorCode.INVALID_RECORD_STATE
        outcomes += [(offsets, outcome) for outcome in book.on_response(error)]
    return outcomes


@pytest.mark.parametrize(
    ("count", "lost"),
    [
        *((count, {offset}) for count in (2, 3, 8) for offset in range(count)),
        *((8, lost) for lost in ({2, 3}, {4, 6, 7}, {0, 1, 3})),
        (3, {0, 1}),
        (8, set()),
    ],
)
def test_lease_is_renewed_as_a_whole_without_the_records_that_lost_their_locks(
    count: int, lost: set[int]
) -> None:
    book, (lease,) = acks((0, count - 1))
    left = set(range(count)) - lost
    lease.decide_held(RENEW)
    outcomes = renew(book, Broker(left))
    assert {
        offset
        for _, outcome in outcomes
        for _, first, last in outcome.locks_lost
        for offset in range(first, last + 1)
    } == lost
    assert not [outcome for _, outcome in outcomes if outcome.not_renewed]
    assert [offsets for offsets, outcome in outcomes if outcome.renewed] == [left]
    assert {offset for offset in range(count) if lease.is_lost(offset)} == lost
    assert lease.count(HELD) == lease.undecided == len(left)


def test_what_is_accepted_while_a_lease_is_renewed_in_parts_is_sent() -> None:
    book, (lease,) = acks((0, 7))
    lease.decide_held(RENEW)
    book.take(renewals=True)
    book.on_response(ErrorCode.INVALID_RECORD_STATE)
    lease.decide(5, ACCEPT)
    left = set(range(8)) - {5}
    outcomes = renew(book, Broker(left))
    assert not [outcome for _, outcome in outcomes if outcome.error]
    assert [offsets for offsets, outcome in outcomes if outcome.renewed] == [left]
    assert book.take(renewals=False) == [AckRange(5, 5, b"\x01")]


def test_a_lease_is_renewed_although_a_record_of_it_is_to_be_renewed_again_meanwhile() -> None:
    book, (lease,) = acks((0, 7))
    lease.decide(3, RENEW)
    assert book.take(renewals=True) == [AckRange(0, 7, b"\x04")]
    assert lease.decide(3, RENEW)
    [outcome] = book.on_response(0)
    assert outcome.renewed == (lease,)
    assert book.take(renewals=True) == []


def test_broker_that_only_renews_parts_is_asked_a_few_times() -> None:
    book, (lease,) = acks((0, 7))
    lease.decide_held(RENEW)
    renewed: list[Lease] = []
    requests = 0
    while ranges := book.take(renewals=True):
        requests += 1
        is_whole = [(range_.first, range_.last) for range_ in ranges] == [(0, 7)]
        for outcome in book.on_response(ErrorCode.INVALID_RECORD_STATE if is_whole else 0):
            renewed += outcome.renewed
    assert requests < 6
    assert renewed == []
    assert lease.count(HELD) == 8


def test_three_refusals_end_renewals_where_they_are_forbidden() -> None:
    book, leases = acks((0, 99), (200, 299))
    for lease in leases:
        lease.decide_held(RENEW)
    outcomes = []
    requests = 0
    while book.take(renewals=True):
        requests += 1
        outcomes += book.on_response(ErrorCode.INVALID_RECORD_STATE)
    assert requests == 3
    assert [outcome.not_renewed for outcome in outcomes] == [tuple(leases)]
    assert [lease.count(HELD) for lease in leases] == [100, 100]
    leases[0].decide_held(ACCEPT)
    assert book.take(renewals=False) == [AckRange(0, 99, b"\x01")]


def test_refused_renewal_of_accepted_records_is_not_reported() -> None:
    book, (lease,) = acks((0, 9))
    lease.decide_held(RENEW)
    for _ in range(2):
        book.take(renewals=True)
        book.on_response(ErrorCode.INVALID_RECORD_STATE)
    assert book.take(renewals=True)
    lease.decide_held(ACCEPT)
    assert book.on_response(ErrorCode.INVALID_RECORD_STATE) == []
    assert book.take(renewals=True) == []
    assert book.take(renewals=False) == [AckRange(0, 9, b"\x01")]
    assert [outcome.error for outcome in book.on_response(0)] == [0]


def test_offset_outside_the_lease_is_refused() -> None:
    _, (lease,) = acks((10, 19))
    with pytest.raises(ValueError, match=r"offset 20 is not in this lease \(10 to 19\)"):
        lease.decide(20, ACCEPT)


def test_missing_response_leaves_the_outcome_open() -> None:
    book, (lease,) = acks((0, 9))
    lease.decide_held(ACCEPT)
    ranges = book.take(renewals=False)
    assert book.on_no_response() == [AckOutcome(P, tuple(ranges), 0, is_open=True)]
    assert lease.count(LOST) == 10
    assert book.on_no_response() == []


def test_lost_session_loses_everything_unsettled() -> None:
    book, (settled, sent, held) = acks((0, 9), (10, 19), (20, 29))
    settled.decide_held(ACCEPT)
    book.take(renewals=False)
    book.on_response(0)
    sent.decide_held(ACCEPT)
    book.take(renewals=False)
    held.decide(22, REJECT)
    assert book.lose() == [
        AckOutcome(P, (AckRange(10, 19, b"\x01"),), 0, is_open=True),
        AckOutcome(P, (AckRange(22, 22, b"\x03"),), ErrorCode.SHARE_SESSION_NOT_FOUND),
    ]
    assert [lease.count(LOST) for lease in (settled, sent, held)] == [0, 10, 10]
    assert not held.decide(25, ACCEPT)


def test_lost_leases_are_not_sent() -> None:
    book, (late, good) = acks((0, 9), (10, 19))
    late.deadline, good.deadline = 5.0, 15.0
    late.decide_held(ACCEPT)
    good.decide_held(ACCEPT)
    refused = AckOutcome(P, (AckRange(0, 9, b"\x01" * 10),), ErrorCode.INVALID_RECORD_STATE)
    assert book.expire(now=5.0) == ([late], [refused])
    assert book.take(renewals=False) == [AckRange(10, 19, b"\x01")]
    assert not late.decide(3, ACCEPT)


def test_sent_acknowledgement_of_an_expired_lease_waits_for_its_response() -> None:
    book, (lease,) = acks((0, 9), deadline=5.0)
    lease.decide(0, ACCEPT)
    book.take(renewals=False)
    book.expire(now=6.0)
    assert lease.count(LOST) == 9
    assert book.on_response(0)[0].error == 0
    assert lease.count(SETTLED) == 1


def test_renewal_of_an_expired_lease_comes_too_late() -> None:
    """Otherwise, its records would be handed out after their lock has expired, while the response is awaited."""
    book, (lease,) = acks((0, 1), deadline=5.0)
    lease.decide_held(RENEW)
    book.take(renewals=True)
    book.expire(now=6.0)
    assert lease.count(LOST) == 2
    assert not lease.decide(1, ACCEPT)
    assert [outcome.renewed for outcome in book.on_response(0)] == [()]
    assert lease.count(LOST) == 2


def test_done_leases_are_forgotten() -> None:
    book, (first, _) = acks((0, 9), (10, 19))
    first.decide_held(ACCEPT)
    book.take(renewals=False)
    book.on_response(0)
    book.forget_done()
    assert [lease.first for lease in book.leases] == [10]


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID])
def test_rule_10_permanent_refusal_ends_at_once_with_its_reason(error: ErrorCode) -> None:
    book, (lease,) = acks((0, 9))
    lease.decide_held(ACCEPT)
    ranges = book.take(renewals=False)
    assert book.on_response(error) == [AckOutcome(P, tuple(ranges), error)]
    assert lease.count(LOST) == 10
    assert not book.has_decided


def test_acknowledgements_are_repeated_while_the_coordinator_moves() -> None:
    book, (lease,) = acks((0, 9))
    lease.decide_held(ACCEPT)
    ranges = list(book.take(renewals=False))
    assert book.on_response(ErrorCode.NOT_COORDINATOR) == []
    assert book.take(renewals=False) == ranges


@pytest.mark.lengthy
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=5),
    st.lists(st.integers(0, 30), max_size=5),
    st.sets(st.integers(0, 300), max_size=6),
    st.sets(st.integers(0, 300), max_size=20),
)
def test_retries_settle_every_valid_record_and_refuse_only_lost_ones(
    sizes: list[int], distances: list[int], lost: set[int], undecided: set[int]
) -> None:
    spans, start = [], 0
    for number, size in enumerate(sizes):
        start += distances[number] if number < len(distances) else 0
        spans.append((start, start + size - 1))
        start += size
    book, leases = acks(*spans)
    offsets = {offset for first, last in spans for offset in range(first, last + 1)}
    for lease in leases:
        for offset in range(lease.first, lease.last + 1):
            if offset not in undecided:
                lease.decide(offset, ACCEPT)
    broker = Broker(offsets - lost)
    blamed: set[int] = set()
    while ranges := book.take(renewals=False):
        assert all(one.last < following.first for one, following in itertools.pairwise(ranges))
        for outcome in book.on_response(broker.response(ranges)):
            if outcome.error:
                blamed |= {
                    offset for range_ in outcome.ranges for offset in range(range_.first, range_.last + 1)
                }
    decided = offsets - undecided
    assert blamed == decided & lost
    assert broker.settled == decided - lost
    assert sum(lease.count(HELD) for lease in leases) == len(offsets & undecided)
    assert broker.requests <= 1 + 2 * len(decided & lost) * (len(decided).bit_length() + 3)


def test_accepts_without_confirmation_are_returned_with_their_leader_epochs() -> None:
    book = PartitionAcks(P)
    lease = Lease(P, 10, 29, 1, leader_epochs=[(0, 14, 7), (15, 40, 8)])
    book.add(lease)
    for offset in (10, 11, 13):
        lease.decide(offset, ACCEPT)
    book.take(renewals=False)
    for offset in (14, 15, 16):
        lease.decide(offset, ACCEPT)
    lease.decide(20, RELEASE)
    assert list(lease.accepted()) == [(10, 11, 7), (13, 14, 7), (15, 16, 8)]


def test_counter_counts_undecided_records_and_notifies_once_at_the_limit() -> None:
    rung: list[int] = []
    counter = UndecidedCounter(lambda: rung.append(counter.undecided))
    one, other = (Lease(P, first, first + 9, 1, counter=counter) for first in (0, 10))
    assert counter.undecided == 20
    counter.notify_at(5)
    counter.notify_at(17)
    for offset in range(4):
        one.decide(offset, ACCEPT)
    assert (counter.undecided, rung) == (16, [17])
    one.decide(0, RENEW)
    assert (counter.undecided, rung) == (17, [17, 17])
    counter.notify_at(0)
    other.decide_held(RELEASE)
    one.decide_held(ACCEPT)
    assert (counter.undecided, rung) == (0, [17, 17, 0])


@pytest.mark.lengthy
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4), st.sampled_from("dtcurslx"))))
def test_counter_equals_the_sum_over_the_leases(steps: list[tuple[int, int, str]]) -> None:
    counter = UndecidedCounter(lambda: None)
    book = PartitionAcks(P)
    leases = [Lease(P, 0, 4, 1, counter=counter), Lease(P, 5, 9, 1, counter=counter)]
    for lease in leases:
        book.add(lease)
    for offset, kind, what in steps:
        lease = leases[offset // 5]
        match what:
            case "d":
                assert lease.can_decide(offset) == lease.decide(offset, kind)
            case "t":
                book.take(renewals=kind == RENEW)
            case "c":
                book.on_response(0)
            case "u":
                book.on_response(ErrorCode.INVALID_RECORD_STATE)
            case "r":
                lease.decide_held(kind)
            case "s":
                book.on_no_response()
            case "l":
                lease.lose()
            case "x":
                lease.deadline = 1.0
                book.expire(2.0)
        assert counter.undecided == sum(lease.undecided for lease in leases)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12)), max_size=30), st.integers(0, 70))
def test_overlapping_leases_are_found(ranges: list[tuple[int, int]], first: int) -> None:
    """However long they are, in whatever order they were acquired, and after some are done."""
    acks = PartitionAcks(P)
    for start, size in ranges:
        acks.add(Lease(P, start, start + size - 1, 1))
        acks.forget_done()
    last = first + 3
    assert acks.overlapping(first, last) == [
        lease for lease in acks.leases if lease.first <= last and first <= lease.last
    ]
    assert [lease.first for lease in acks.leases] == sorted(lease.first for lease in acks.leases)
