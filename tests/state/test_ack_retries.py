"""Retries of refused acknowledgements: what is sent again, in which order, and with how many requests."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.protocol.error_codes import ErrorCode
from kshare.state.acks import PartitionAcks
from kshare.state.lease import ACCEPT, HELD, LOST, RENEW, SETTLED, Lease
from kshare.state.session import AckRange
from tests.fakes.acknowledged import Broker, acks


def offsets_of(ranges: list[AckRange]) -> set[int]:
    return {offset for range_ in ranges for offset in range(range_.first, range_.last + 1)}


def settle(book: PartitionAcks, broker: Broker) -> list[int]:
    """Send until nothing is left; returns the number of records in each request."""
    sizes = []
    while ranges := book.take(renewals=False):
        sizes.append(len(offsets_of(ranges)))
        assert all(one.last < following.first for one, following in pairwise(ranges))
        book.on_response(broker.response(ranges))
    return sizes


@pytest.mark.parametrize(("records", "requests"), [(1, 1), (2, 3), (16, 16), (1024, 28), (100_000, 42)])
def test_lost_lease_takes_a_logarithmic_number_of_requests(records: int, requests: int) -> None:
    book, (lease,) = acks((0, records - 1))
    lease.decide_held(ACCEPT)
    broker = Broker(set())
    settle(book, broker)
    assert broker.requests == requests
    assert lease.count(LOST) == records


@pytest.mark.lengthy
def test_many_small_lost_leases_take_no_more_requests_than_one_large_one() -> None:
    book, leases = acks(*((offset, offset) for offset in range(1024)))
    for lease in leases:
        lease.decide_held(ACCEPT)
    broker = Broker(set())
    settle(book, broker)
    assert broker.requests == 28
    assert all(lease.count(LOST) == 1 for lease in leases)


def test_held_records_of_a_lost_lease_are_lost_too() -> None:
    book, (lost, good) = acks((0, 1023), (1024, 2047))
    for lease in (lost, good):
        for offset in range(lease.first, lease.last + 1 - 100):
            lease.decide(offset, ACCEPT)
    settle(book, Broker(set(range(1024, 2048))))
    assert (lost.count(LOST), lost.count(HELD)) == (1024, 0)
    assert (good.count(SETTLED), good.count(HELD)) == (924, 100)


@pytest.mark.parametrize("lost", [{0}, {999}, {500}, {0, 1, 2}, {7, 300, 301, 640, 998}])
def test_stale_records_in_a_large_lease_are_found_and_the_others_settled(lost: set[int]) -> None:
    book, (lease,) = acks((0, 999))
    lease.decide_held(ACCEPT)
    broker = Broker(set(range(1000)) - lost)
    settle(book, broker)
    assert broker.settled == set(range(1000)) - lost
    assert lease.count(LOST) == len(lost)
    assert broker.requests <= 1 + 20 * len(lost)


@given(st.integers(1, 400), st.integers(0, 400), st.integers(0, 400))
def test_lost_lease_does_not_affect_its_neighbours(size: int, before: int, after: int) -> None:
    spans = [
        (0, before),
        (before + 1, before + size),
        (before + size + 1, before + size + after + 1),
    ]
    book, leases = acks(*spans)
    for lease in leases:
        lease.decide_held(ACCEPT)
    lost = set(range(before + 1, before + size + 1))
    broker = Broker(set(range(spans[-1][1] + 1)) - lost)
    settle(book, broker)
    assert [lease.count(LOST) for lease in leases] == [0, size, 0]
    assert [lease.count(SETTLED) for lease in leases] == [before + 1, 0, after + 1]
    assert broker.requests <= 5 + 2 * (size - 1).bit_length() + 8


def test_valid_halves_are_settled_before_invalid_ones_are_split_again() -> None:
    book, (lease,) = acks((0, 1023))
    lease.decide_held(ACCEPT)
    sizes = settle(book, Broker(set(range(1, 1024))))
    halves = [size for exponent in range(9, -1, -1) for size in (2**exponent, 2**exponent)]
    assert sizes == [1024, *halves]


def test_new_decisions_alternate_with_retried_pieces() -> None:
    book, (refused, other) = acks((0, 1023), (5000, 5009))
    refused.decide_held(ACCEPT)
    book.take(renewals=False)
    book.on_response(ErrorCode.INVALID_RECORD_STATE)
    turns = []
    for offset in range(5000, 5005):
        other.decide(offset, ACCEPT)
        for _ in range(2):
            ranges = book.take(renewals=False)
            is_other = offsets_of(ranges) == {offset}
            turns.append(is_other)
            book.on_response(0 if is_other else ErrorCode.INVALID_RECORD_STATE)
    assert sorted(turns) == [False] * 5 + [True] * 5, "retried pieces and new decisions alternate"
    assert other.count(SETTLED) == 5
    assert other.count(HELD) == 5


def test_piece_is_sent_again_while_the_coordinator_moves() -> None:
    book, (lease,) = acks((0, 7))
    lease.decide_held(ACCEPT)
    book.take(renewals=False)
    book.on_response(ErrorCode.INVALID_RECORD_STATE)
    piece = list(book.take(renewals=False))
    assert book.on_response(ErrorCode.NOT_COORDINATOR) == []
    assert book.take(renewals=False) == piece


@pytest.mark.lengthy
def test_pieces_of_expired_leases_are_dropped() -> None:
    """A thousand of them once caused a RecursionError."""
    book, (late, good) = acks((0, 3999), (6000, 6009))
    late.deadline = 5.0
    late.decide_held(ACCEPT)
    broker = Broker(set(range(0, 4000, 2)) | set(range(6000, 6010)))
    for _ in range(1500):
        book.on_response(broker.response(book.take(renewals=False)))
    book.expire(now=6.0)
    good.decide_held(ACCEPT)
    assert book.take(renewals=False) == [AckRange(6000, 6009, b"\x01")]
    book.on_response(0)
    assert book.take(renewals=False) == []
    assert not book.has_decided


def test_decisions_made_while_a_piece_is_retried_are_sent_once() -> None:
    book, (lease,) = acks((0, 99))
    for offset in range(0, 100, 2):
        lease.decide(offset, ACCEPT)
    broker = Broker(set(range(100)) - {50})
    book.on_response(broker.response(book.take(renewals=False)))
    lease.decide_held(ACCEPT)
    settle(book, broker)
    assert broker.settled == set(range(100)) - {50}
    assert lease.is_done


def test_refused_renewal_of_one_lease_does_not_affect_the_others() -> None:
    book, leases = acks((0, 99), (100, 199), (200, 299), (300, 399))
    for lease in leases:
        lease.decide_held(RENEW)
    refused: list[Lease] = []
    renewed: list[Lease] = []
    while ranges := book.take(renewals=True):
        is_bad = bool(offsets_of(ranges) & set(range(100, 200)))
        for outcome in book.on_response(ErrorCode.INVALID_RECORD_STATE if is_bad else 0):
            refused += outcome.not_renewed
            renewed += outcome.renewed
    assert refused == [leases[1]]
    assert sorted(lease.first for lease in renewed) == [0, 200, 300]
    assert all(lease.count(HELD) == 100 for lease in leases)
