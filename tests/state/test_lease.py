"""Counting and splitting the states of a lease, compiled or in Python, compared with going through them one by one."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from kshare.state.lease import (
    ACCEPT,
    GAP,
    HELD,
    LOST,
    REJECT,
    RELEASE,
    RENEW,
    SENT,
    SETTLED,
    Lease,
    UndecidedCounter,
)

P = (b"t" * 16, 0)
SENT_ACCEPT = SENT | ACCEPT
STATES = [HELD, GAP, ACCEPT, RELEASE, REJECT, RENEW, SENT_ACCEPT, SENT | RENEW, SETTLED, LOST]
LENGTHS = st.one_of(st.integers(1, 9), st.integers(250, 600))


def of_states(states: list[int]) -> Lease:
    lease = Lease(P, 100, 100 + len(states) - 1, 1)
    lease.states[:] = bytes(states)
    return lease


leases = st.lists(st.tuples(st.sampled_from(STATES), LENGTHS), min_size=1, max_size=8).map(
    lambda runs: of_states([state for state, length in runs for _ in range(length)])
)


def stretches(states: list[int], wanted: range) -> list[tuple[int, int]]:
    """Find the runs one by one."""
    found = []
    for is_wanted, group in groupby(range(len(states)), lambda index: states[index] in wanted):
        indexes = list(group)
        if is_wanted:
            found.append((indexes[0], indexes[-1] + 1))
    return found


@given(leases, st.sampled_from([(HELD, HELD), (GAP, REJECT), (RENEW, RENEW), (ACCEPT, REJECT)]))
def test_runs_are_maximal(lease: Lease, kinds: tuple[int, int]) -> None:
    low, high = kinds
    assert lease.runs_in(lease.first, lease.last, (kinds,)) == stretches(
        list(lease.states), range(low, high + 1)
    )


@given(leases, st.integers(-5, 1000), st.integers(0, 1000))
def test_runs_within_offsets_are_clipped(lease: Lease, first: int, more: int) -> None:
    states = list(lease.states)
    for index in range(len(states)):
        if not first <= lease.first + index < first + more:
            states[index] = LOST
    assert lease.runs_in(first, first + more - 1, ((GAP, REJECT),)) == stretches(states, range(GAP, RENEW))


@given(leases)
def test_counts(lease: Lease) -> None:
    states = list(lease.states)
    assert [lease.count(state) for state in STATES] == [states.count(state) for state in STATES]
    assert lease.undecided == sum(state in (HELD, RENEW, SENT | RENEW) for state in states)
    assert lease.has_decided == any(state <= RENEW for state in states)
    assert lease.is_done == all(state in (SETTLED, LOST) for state in states)


def test_sent_types_are_one_byte_if_all_are_equal() -> None:
    lease = of_states([ACCEPT] * 600 + [REJECT, ACCEPT, HELD])
    assert lease.send(0, 600) == bytes([ACCEPT])
    assert lease.send(600, 602) == bytes([REJECT, ACCEPT])
    assert list(lease.states) == [SENT_ACCEPT] * 600 + [SENT | REJECT, SENT_ACCEPT, HELD]


def test_range_is_decided_where_it_is_still_held() -> None:
    rings: list[int] = []
    counter = UndecidedCounter(lambda: rings.append(1))
    lease = Lease(P, 10, 15, 1, counter=counter)
    lease.decide(11, REJECT)
    lease.decide(12, RENEW)
    counter.notify_at(2)
    lease.decide_held_within(5, 13, ACCEPT)
    assert lease.states == bytes([ACCEPT, REJECT, ACCEPT, ACCEPT, HELD, HELD])
    assert (counter.undecided, rings[-1]) == (2, 1)
    lease.decide_held_within(16, 20, ACCEPT)
    assert counter.undecided == 2


@given(leases, st.integers(0, 5000), st.integers(-1, 3))
def test_accepting_quietly_is_deciding_if_held_without_a_call_back(
    lease: Lease, place: int, spare: int
) -> None:
    """With `spare` more undecided records than those at which the counter calls back."""
    offset = lease.first + place % (len(lease.states) + 2) - 1
    states, calls = bytes(lease.states), list[None]()
    counter = UndecidedCounter(lambda: calls.append(None))
    same = Lease(P, lease.first, lease.last, 1, counter=counter)
    same.states[:] = states
    counter.undecided = same.undecided
    counter.notify_at(same.undecided - 1 - spare)
    was_held, quiet = lease.is_held(offset), spare > 0
    is_accepted = same.accept_quietly(offset)
    assert is_accepted == (was_held and quiet and states[offset - lease.first] == HELD)
    if is_accepted:
        lease.decide_if_held(offset, ACCEPT)
        assert counter.undecided == same.undecided
    assert (same.states, calls) == (lease.states, [])
