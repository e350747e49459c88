"""A share group's progress, calculated from its offsets, its stored states and the topic's offsets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kshare.admin.progress import progress
from kshare.admin.results import PartitionOffset, PartitionProgress
from kshare.admin.state_trail import StateTrail, StateTrails
from kshare.state.share_records import (
    UNINITIALIZED_START_OFFSET,
    SharePartitionState,
    ShareStates,
    StateRange,
    StoredState,
)
from tests.helpers.share_state_records import WHERE, snapshot, update

DONE, GONE, FREE = StoredState.ACKNOWLEDGED, StoredState.ARCHIVED, StoredState.AVAILABLE


def reported(start: int | None = 0, lag: int | None = None) -> PartitionOffset:
    return PartitionOffset("orders", 0, start, 7, lag)


def state(start: int, *ranges: tuple[int, int, StoredState, int]) -> SharePartitionState:
    return SharePartitionState(start, tuple(StateRange(*range_) for range_ in ranges), 0, 7, 0, -1)


def figures(found: PartitionProgress) -> tuple[int | None, int | None, int]:
    return found.start_offset, found.lag, found.removed


def test_start_offset_is_the_first_unsettled_record() -> None:
    stored = state(10, (10, 11, DONE, 1), (12, 12, GONE, 5), (14, 14, DONE, 1))
    assert figures(progress(reported(10, 18), stored, 0, 30)) == (13, 16, 0)
    assert figures(progress(reported(10, 0), state(10, (10, 29, DONE, 1)), 0, 30)) == (30, 0, 0)


def test_records_removed_from_the_topic_are_counted_and_not_part_of_the_lag() -> None:
    stored = state(10, (11, 12, DONE, 1), (20, 21, DONE, 1))
    assert figures(progress(reported(10, 17), stored, 20, 30)) == (22, 8, 8)
    assert figures(progress(reported(10, 20), None, 20, 30)) == (20, 10, 10)
    assert figures(progress(reported(10, None), None, 30, 30)) == (30, None, 20)


def test_unknown_figures_are_none() -> None:
    assert figures(progress(reported(None), None, 5, 30)) == (None, None, 0)
    assert figures(progress(reported(10, 3), None, None, None)) == (10, 3, 0)
    assert figures(progress(reported(None), state(-1), 5, 30)) == (None, None, 0)
    assert progress(reported(10, 3), None, 0, 30).is_window_full is False


@pytest.mark.parametrize(("settled", "end", "is_full"), [(99, 300, True), (99, 100, False), (80, 300, False)])
def test_window_is_full_when_it_spans_the_limit_and_records_wait(
    settled: int, end: int, is_full: bool
) -> None:
    stored = state(0, (1, settled, DONE, 1))
    found = progress(reported(0), stored, 0, end, StateTrail(5.0, 9.0))
    assert (found.window_span, found.window_open, found.waiting) == (settled + 1, 1, end - settled - 1)
    assert (found.start_since, found.changed_at) == (5.0, 9.0)
    assert full(found, limit=100) is is_full
    assert full(found, limit=None) is False


def full(found: PartitionProgress, limit: int | None) -> bool:
    return replace(found, window_limit=limit).is_window_full


# --- history, from the records of the state topic


def test_trail_tells_when_the_start_offset_changed_and_how_many_records_were_archived() -> None:
    fold, trails = ShareStates(), StateTrails()

    def say(at: int, key: bytes, value: bytes | None) -> StateTrail | None:
        known = fold.apply(key, value)
        assert known is not None
        trails.note(known, at * 1000)
        return trails.of.get(WHERE)

    assert say(1, *snapshot(1, 0, [])) == StateTrail(1.0, 1.0)
    found = say(2, *update(1, UNINITIALIZED_START_OFFSET, [(0, 0, DONE, 1)]))
    assert (found.start_since, found.changed_at) == (2.0, 2.0)  # type: ignore[union-attr]
    say(3, *update(1, UNINITIALIZED_START_OFFSET, [(2, 3, GONE, 5), (4, 4, GONE, 1)]))
    found = say(4, *update(1, 1, [(2, 3, GONE, 5), (5, 5, FREE, 2)]))  # 2 and 3 are repeated
    assert found is not None
    assert (found.start_since, found.changed_at) == (2.0, 4.0)
    assert found.archived == {5: 2, 1: 1}
    found = say(5, *snapshot(2, 1, [(2, 4, GONE, 5), (5, 5, FREE, 2)]))
    assert found is not None
    assert (found.start_since, found.changed_at) == (2.0, 4.0)
    assert say(6, *update(1, UNINITIALIZED_START_OFFSET, [(1, 1, DONE, 1)])) == found, (
        "the update belongs to another snapshot"
    )
    assert say(7, snapshot(1, 0, [])[0], None) is None


def test_what_was_removed_unread_shows_in_the_next_snapshot() -> None:
    """Its updates were removed with all that is older than the snapshot."""
    fold, trails = ShareStates(), StateTrails()
    for at, record in enumerate(
        [
            snapshot(1, 0, []),
            update(1, UNINITIALIZED_START_OFFSET, [(0, 0, FREE, 1), (5, 5, FREE, 1)]),
            # Unread: 0 was released once more and accepted, 1 to 4 were accepted, 5 was released twice more, 6 was
            # archived at its third delivery, 7 was accepted.
            snapshot(3, 5, [(5, 5, FREE, 3), (6, 6, GONE, 3), (7, 7, DONE, 1)]),
        ]
    ):
        known = fold.apply(*record)
        assert known is not None
        trails.note(known, at * 1000)
    trail = trails.of[WHERE]
    assert (trail.accepted, trail.archived) == (6, {3: 1})
    # 2 releases that were read; 2 of offset 5 and 2 of offset 6. That of offset 0 isn't known.
    assert trail.released == 6
    assert trail.deliveries == trail.accepted + trail.released + 1
    assert (trail.start_since, trail.changed_at, trail.since) == (2.0, 2.0, 0.0)
