"""Unconfirmed accepts, compared with a model that remembers each offset separately."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kshare.state.unconfirmed_accepts import UnconfirmedAccepts

P, Q = (b"t" * 16, 0), (b"u" * 16, 0)


def test_redelivered_records_are_known_in_part() -> None:
    memory = UnconfirmedAccepts()
    memory.remember(P, 3, 10, 19)
    memory.remember(P, 3, 30, 39)
    assert memory.known(P, 3, 15, 34) == [(15, 19), (30, 34)]
    assert memory.known(P, 3, 20, 29) == []
    assert memory.known(Q, 3, 15, 34) == []


def test_other_leader_epoch_means_other_records() -> None:
    memory = UnconfirmedAccepts()
    memory.remember(P, 3, 10, 19)
    assert memory.known(P, 4, 10, 19) == []


def test_accepts_are_known_until_confirmed() -> None:
    memory = UnconfirmedAccepts()
    memory.remember(P, 3, 10, 19)
    assert memory.known(P, 3, 10, 19) == memory.known(P, 3, 10, 19) == [(10, 19)]
    memory.confirm(P, 12, 14)
    assert memory.known(P, 3, 0, 100) == [(10, 11), (15, 19)]
    memory.confirm(P, 0, 100)
    assert len(memory) == 0


def test_adjacent_offsets_are_one_range() -> None:
    memory = UnconfirmedAccepts()
    for offset in range(1000):
        memory.remember(P, 3, offset, offset)
    assert len(memory) == 1


def test_oldest_are_forgotten_above_the_limit() -> None:
    memory = UnconfirmedAccepts(bound=3)
    memory.remember(Q, 1, 0, 0)
    for offset in (0, 10, 20):
        memory.remember(P, 1, offset, offset)
    assert len(memory) == 3
    assert memory.known(Q, 1, 0, 0) == []
    memory.remember(P, 1, 30, 30)
    assert memory.known(P, 1, 0, 30) == [(10, 10), (20, 20), (30, 30)]


def test_deleted_topic_is_forgotten() -> None:
    memory = UnconfirmedAccepts()
    memory.remember(P, 1, 0, 9)
    memory.remember(Q, 1, 0, 9)
    memory.forget_topic(P[0])
    assert memory.known(P, 1, 0, 9) == []
    assert memory.known(Q, 1, 0, 9) == [(0, 9)]


_span = st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(
    st.lists(
        st.tuples(st.sampled_from(["remember", "confirm", "known"]), st.integers(1, 2), _span), max_size=40
    )
)
def test_results_equal_those_of_a_set_of_offsets(steps: list[tuple[str, int, tuple[int, int]]]) -> None:
    memory, model = UnconfirmedAccepts(), set[tuple[int, int]]()
    for step, epoch, (first, last) in steps:
        offsets = range(first, last + 1)
        if step == "remember":
            memory.remember(P, epoch, first, last)
            model |= {(epoch, offset) for offset in offsets}
        elif step == "confirm":
            memory.confirm(P, first, last)
            model -= {(e, offset) for e in (1, 2) for offset in offsets}
        known = {
            (epoch, o) for start, end in memory.known(P, epoch, first, last) for o in range(start, end + 1)
        }
        assert known == {(epoch, offset) for offset in offsets} & model
