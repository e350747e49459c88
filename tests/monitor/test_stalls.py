"""What stands still, from two readings: full windows, and nothing settled although records wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kshare.admin.results import Member, PartitionProgress
from kshare.monitor.snapshot import GroupReading, PartitionReading
from kshare.monitor.stalls import assigned_members, is_pinned, is_undecided, stalled_for

NOW = 1_000.0
PROGRESS = PartitionProgress(
    "orders", 0, 10, 5000, 0, 0, 5010, window_end=10, window_limit=2000, changed_at=NOW - 6
)
ONE = PartitionReading("g", "orders", 0, 10, 5010, 5000, 0, 0, NOW - 60, PROGRESS)


def with_progress(**changes: Any) -> PartitionReading:
    return replace(ONE, progress=replace(PROGRESS, **changes))


def test_nothing_settled_for_long() -> None:
    assert stalled_for(ONE, ONE, NOW) == 6


def test_a_few_records_may_take_longer() -> None:
    """They aren't a full window."""
    few = replace(ONE, lag=20)
    assert stalled_for(few, few, NOW) is None
    assert stalled_for(few, few, NOW + 30) == 36


def test_idle_group_with_new_records_has_not_stalled() -> None:
    """What was settled last is long ago, because there was nothing to settle."""
    fresh = replace(with_progress(changed_at=NOW - 3600), oldest=NOW - 3)
    assert stalled_for(fresh, fresh, NOW) is None
    assert stalled_for(fresh, fresh, NOW + 3) == 6


def test_group_that_was_idle_has_not_stalled_because_of_a_records_old_timestamp() -> None:
    now = replace(with_progress(changed_at=NOW - 3600), oldest=NOW - 7200)
    assert stalled_for(replace(now, lag=0), now, NOW) is None
    assert stalled_for(now, now, NOW) == 3600


def test_time_without_members_does_not_count() -> None:
    """A group that nobody has read for an hour hasn't stalled when a worker joins."""
    paused = replace(with_progress(changed_at=NOW - 3600), members_since=NOW - 4)
    assert stalled_for(paused, paused, NOW) is None
    assert stalled_for(paused, paused, NOW + 2) == 6


def test_whether_later_readings_may_show_a_stall() -> None:
    paused = replace(with_progress(changed_at=NOW - 3600), members_since=NOW - 4)
    assert is_undecided(paused, paused, NOW)
    assert is_undecided(paused, paused, NOW + 26), "only a short stall is certain"
    assert not is_undecided(paused, paused, NOW + 27)
    assert not is_undecided(replace(paused, start=9), paused, NOW)
    assert not is_undecided(paused, replace(paused, members_since=None), NOW)
    assert not is_undecided(None, paused, NOW)
    full = replace(paused, progress=replace(PROGRESS, window_end=2010, changed_at=NOW - 3600))
    assert not is_undecided(full, full, NOW)


def test_timestamp_in_the_future_hides_no_stall() -> None:
    ahead = replace(ONE, oldest=NOW + 3600)
    assert stalled_for(ahead, ahead, NOW) == 6


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (None, ONE),
        (replace(ONE, start=9), ONE),
        (with_progress(changed_at=NOW - 7), ONE),
        (ONE, replace(ONE, lag=0)),
        (ONE, with_progress(changed_at=None)),
        (ONE, replace(ONE, start=None)),
        (ONE, replace(ONE, progress=None)),
    ],
)
def test_progress_or_nothing_known(before: PartitionReading | None, now: PartitionReading) -> None:
    assert stalled_for(before, now, NOW) is None


def test_pinned_window() -> None:
    full = with_progress(window_end=2010)
    assert is_pinned(full, full)
    assert not is_pinned(replace(full, start=9), full)
    assert not is_pinned(None, full)
    assert not is_pinned(ONE, ONE)


def test_members_with_the_partition() -> None:
    first, second = (Member(f"m{at}", "c", "h", None, 1, ("orders",), (("orders", at),)) for at in (0, 1))
    assert assigned_members(GroupReading("g", "Stable", (first, second)), PROGRESS) == [first]
