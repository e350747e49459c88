"""States of share-partitions from the records of __share_group_state."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kshare.protocol.messages import ShareSnapshotKey
from kshare.state.share_records import (
    UNINITIALIZED_START_OFFSET,
    SharePartitionState,
    ShareStates,
    StateRange,
    StoredState,
    merged,
)
from tests.helpers.share_state_records import WHERE, packed, snapshot, update

AVAILABLE, ACKNOWLEDGED, ARCHIVED = StoredState


def test_updates_are_applied_to_their_snapshot() -> None:
    fold = ShareStates()
    fold.apply(*snapshot(1, 10, [(10, 19, AVAILABLE, 1)]))
    told = fold.apply(*update(1, UNINITIALIZED_START_OFFSET, [(12, 14, ACKNOWLEDGED, 1)]))
    assert told is not None
    assert told.is_applied
    assert told.where == WHERE
    state = fold.states[WHERE]
    assert state.start_offset == 10
    assert state.ranges == (
        StateRange(10, 11, AVAILABLE, 1),
        StateRange(12, 14, ACKNOWLEDGED, 1),
        StateRange(15, 19, AVAILABLE, 1),
    )
    fold.apply(*update(1, 15, []))
    assert fold.states[WHERE].ranges == (StateRange(15, 19, AVAILABLE, 1),)
    assert fold.states[WHERE].updates == 2


def test_snapshot_replaces_the_state_and_tombstone_deletes_it() -> None:
    fold = ShareStates()
    fold.apply(*snapshot(1, 0, [(0, 9, ACKNOWLEDGED, 1)]))
    fold.apply(*snapshot(2, 5, []))
    assert fold.states[WHERE].ranges == ()
    fold.apply(packed(0, ShareSnapshotKey(*WHERE)), None)
    assert fold.states == {}


def test_update_of_another_snapshot_is_ignored() -> None:
    fold = ShareStates()
    orphan = fold.apply(*update(7, 0, [(0, 1, ACKNOWLEDGED, 1)]))
    assert orphan is not None
    assert not orphan.is_applied
    fold.apply(*snapshot(8, 0, []))
    late = fold.apply(*update(7, 4, [(0, 1, ACKNOWLEDGED, 1)]))
    assert late is not None
    assert not late.is_applied
    assert fold.states[WHERE].start_offset == 0


def test_unknown_records_are_ignored() -> None:
    fold = ShareStates()
    key, value = snapshot(1, 0, [])
    for strange in [(None, value), (b"\0", value), (b"\0\x09" + key[2:], value), (key[:-1], value)]:
        assert fold.apply(*strange) is None
    assert fold.apply(key, b"\0\x07" + value[2:]) is None
    assert fold.apply(key, value[:-3]) is None
    assert fold.states == {}


def test_open_ranges_start_at_0_without_a_start_offset() -> None:
    state = SharePartitionState(-1, (), 0, 0, 0, 0)
    assert list(state.open_ranges(0)) == []
    assert list(state.open_ranges(3)) == [StateRange(0, 2, AVAILABLE, 0)]


def test_open_ranges_are_the_unsettled_offsets() -> None:
    ranges = (
        StateRange(12, 13, ACKNOWLEDGED, 1),
        StateRange(14, 14, AVAILABLE, 2),
        StateRange(20, 30, ARCHIVED, 5),
    )
    state = SharePartitionState(10, ranges, 0, 0, 0, 0)
    assert list(state.open_ranges(25)) == [
        StateRange(10, 11, AVAILABLE, 0),
        StateRange(14, 14, AVAILABLE, 2),
        StateRange(15, 19, AVAILABLE, 0),
    ]
    assert list(state.open_ranges(10)) == []
    assert list(state.covering(13, 14)) == [
        StateRange(13, 13, ACKNOWLEDGED, 1),
        StateRange(14, 14, AVAILABLE, 2),
    ]


ROWS = st.builds(
    lambda first, length, state, count: StateRange(first, first + length, state, count),
    st.integers(0, 40),
    st.integers(0, 12),
    st.sampled_from(StoredState),
    st.integers(0, 3),
)


@given(st.lists(ROWS, max_size=12), st.integers(-1, 45))
def test_merged_ranges_have_the_greatest_weight_at_each_offset(rows: list[StateRange], start: int) -> None:
    heaviest: dict[int, tuple[int, int]] = {}
    for row in rows:
        for offset in range(max(row.first, start), row.last + 1):
            heaviest[offset] = max(heaviest.get(offset, (-1, -1)), row.weight)
    ranges = merged((), rows, start)
    assert {
        offset: range_.weight for range_ in ranges for offset in range(range_.first, range_.last + 1)
    } == heaviest
    for one, other in pairwise(ranges):
        assert one.last < other.first
        assert one.last + 1 < other.first or one.weight != other.weight
