"""Where a group starts that hasn't settled anything yet, and what that says about its lag."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kshare.admin.expected_starts import with_expected_start
from kshare.admin.progress import progress
from kshare.admin.results import PartitionOffset, PartitionProgress
from kshare.admin.state_trail import StateTrail
from kshare.state.share_records import SharePartitionState

UNDECIDED = SharePartitionState(-1, (), 0, 7, 0, -1)


def undecided(first: int | None, end: int | None) -> PartitionProgress:
    reported = PartitionOffset("orders", 0, None, 7, None)
    return progress(reported, UNDECIDED, first, end, StateTrail(5.0, 5.0))


@pytest.mark.parametrize(
    ("reset", "first", "end", "start", "lag"),
    [
        ("earliest", 3, 10, 3, 7),
        ("earliest", 10, 10, 10, 0),
        ("latest", 3, 10, None, None),
        ("latest", 10, 10, 10, 0),
        ("by_duration:PT1H", 3, 10, None, None),
        (None, 3, 10, None, None),
        ("earliest", None, None, None, None),
    ],
)
def test_lag_without_a_start_offset(
    reset: str | None, first: int | None, end: int | None, start: int | None, lag: int | None
) -> None:
    found = with_expected_start(undecided(first, end), reset)
    assert (found.start_offset, found.expected_start, found.lag) == (None, start, lag)


def test_all_records_wait_behind_an_empty_window() -> None:
    found = with_expected_start(undecided(3, 10), "earliest")
    assert (found.waiting, found.window_span, found.is_window_full) == (7, None, False)


def test_nothing_was_delivered_which_is_known() -> None:
    found = undecided(3, 10)
    assert (found.deliveries, found.accepted, found.released, found.archived) == (0, 0, 0, ())
    assert (found.redelivered, found.most_deliveries, found.changed_at) == (0, 0, 5.0)


def test_a_known_start_remains() -> None:
    known = replace(undecided(3, 10), start_offset=4, lag=6)
    assert with_expected_start(known, "earliest") == known
