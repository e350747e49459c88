"""Pictures as runs of an SVG bar."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kshare.admin.results import PartitionProgress
from kshare.monitor.picture import Picture, Standing
from kshare.state.share_records import SharePartitionKey, SharePartitionState, StateRange, StoredState
from kshare.web.bars import SvgBar, scale_of
from kshare.web.bars import bar_of as scaled_bar_of

GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"
DONE, GONE, FREE = StoredState.ACKNOWLEDGED, StoredState.ARCHIVED, StoredState.AVAILABLE


def picture(*ranges: tuple[int, int, int, int], start: int = 0, end: int | None = 10) -> Picture:
    state = SharePartitionState(start, tuple(StateRange(*range_) for range_ in ranges), 0, 0, 0, -1)
    return Picture(SharePartitionKey("g", b"\0" * 16, 0), "orders", state, end)


def bar_of(one: Picture) -> SvgBar | None:
    """Its bar on a page of its own."""
    return scaled_bar_of(one, scale_of([one]))


def test_bars_of_a_page_have_one_scale() -> None:
    pictures = [picture(end=1_000), picture(end=10), picture(start=10)]
    scale = scale_of(pictures)
    bars = [scaled_bar_of(picture, scale) for picture in pictures]
    assert (scale.per_sign, scale.signs, scale.offsets) == (3, 334, 1_002)
    assert [bar and (bar.width, bar.paths[0][1]) for bar in bars] == [
        (334, "M0 0h334v1h-334z"),
        (334, "M0 0h4v1h-4z"),
        None,
    ]


def test_each_state_is_a_path() -> None:
    bar = bar_of(picture((1, 3, DONE, 1), (4, 4, GONE, 5), (5, 6, FREE, 2), (7, 7, FREE, 12)))
    assert bar is not None
    assert bar.paths == (
        ("acknowledged", "M1 0h3v1h-3z"),
        ("archived", "M4 0h1v1h-1z"),
        ("not-released", "M0 0h1v1h-1zM8 0h2v1h-2z"),
        ("released", "M5 0h3v1h-3z"),
    )
    assert (bar.first, bar.last, bar.window) == (0, 9, None)


def test_states_are_called_what_kafka_calls_them() -> None:
    (states,) = re.findall(r"\| record state \| (.*?) \|", GLOSSARY.read_text())
    assert {standing.text.split()[0] for standing in Standing} == set(
        re.findall(r"a\w+d|available", states.lower())
    )


def test_one_record_is_not_drawn_as_many() -> None:
    bar = bar_of(picture(end=1))
    assert bar is not None
    assert bar.paths == (("not-released", "M0 0h1v1h-1z"),)
    assert bar.width == 40


@pytest.mark.parametrize(("window_end", "end", "drawn"), [(100, 570, 50), (103, 570, 51.5), (10, 10, None)])
def test_the_end_of_the_window_is_drawn_where_it_is(window_end: int, end: int, drawn: float | None) -> None:
    progress = PartitionProgress("orders", 0, 0, end, 0, 0, end, window_end=window_end, window_limit=100)
    bar = bar_of(replace(picture(end=end), progress=progress))
    assert bar is not None
    assert bar.window == drawn


def test_long_bars_are_shortened() -> None:
    bar = bar_of(picture((0, 499_999, DONE, 1), end=1_000_000))
    assert bar is not None
    assert bar.paths == (("acknowledged", "M0 0h200v1h-200z"), ("not-released", "M200 0h200v1h-200z"))
    assert bar.width == 400


def test_nothing_after_the_start_has_no_bar() -> None:
    assert bar_of(picture(start=10)) is None
    assert bar_of(picture(start=-1)) is None
