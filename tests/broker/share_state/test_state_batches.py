"""Combining state batches, compared with a dictionary of offsets."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies

from kshare.broker.share_state.state_batches import StateBatch, combine

BATCHES = strategies.lists(
    strategies.builds(
        lambda first, size, state, deliveries: StateBatch(first, first + size, state, deliveries),
        strategies.integers(0, 30),
        strategies.integers(0, 12),
        strategies.sampled_from([0, 2, 4]),
        strategies.integers(0, 3),
    ),
    max_size=8,
)


def test_higher_delivery_count_wins_then_higher_state() -> None:
    known = [StateBatch(0, 9, 0, 1)]
    assert combine(known, [StateBatch(3, 4, 2, 1)], 0) == [(0, 2, 0, 1), (3, 4, 2, 1), (5, 9, 0, 1)]
    assert combine(known, [StateBatch(5, 12, 0, 2)], 0) == [(0, 4, 0, 1), (5, 12, 0, 2)]
    assert combine([StateBatch(0, 9, 4, 3)], [StateBatch(0, 9, 0, 1)], 0) == [(0, 9, 4, 3)]


def test_adjacent_batches_with_equal_states_are_merged() -> None:
    assert combine([StateBatch(0, 4, 0, 1)], [StateBatch(5, 9, 0, 1)], 0) == [(0, 9, 0, 1)]


def test_offsets_before_the_start_are_dropped() -> None:
    assert combine([StateBatch(0, 9, 0, 1), StateBatch(10, 19, 2, 1)], [], 15) == [(15, 19, 2, 1)]


@given(BATCHES, BATCHES, strategies.integers(0, 20))
def test_each_offset_has_the_state_of_greatest_weight(
    known: list[StateBatch], said: list[StateBatch], start: int
) -> None:
    expected: dict[int, tuple[int, int]] = {}
    for batch in (*known, *said):
        for offset in range(max(batch.first, start), batch.last + 1):
            expected[offset] = max(expected.get(offset, (-1, -1)), batch.weight)
    combined = combine(known, said, start)
    assert all(here.last < there.first for here, there in pairwise(combined))
    found = {offset: batch.weight for batch in combined for offset in range(batch.first, batch.last + 1)}
    assert found == expected
