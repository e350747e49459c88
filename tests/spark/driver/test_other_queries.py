"""Whether other queries of the group run, as their marks show."""

from __future__ import annotations

import pytest

from kshare.admin.committed_texts import CommittedText
from kshare.spark.driver.other_queries import SignsOfLife, newest_mark
from kshare.spark.driver.query_mark import QueryMark


def mark(beat: int, begun: int = 3) -> QueryMark:
    return QueryMark(begun, begun, (), beat)


@pytest.mark.parametrize(
    ("beats", "is_silent", "is_stopped"),
    [
        ([0], True, True),
        ([7], True, False),
        ([7, 7, 7], True, False),
        ([7, 7, 8], False, False),
        ([7, 8, 8], False, False),
        ([7, 0], True, True),
        ([7, 8, 0], True, True),
        ([0, 5], True, False),
        ([0, 5, 6], False, False),
    ],
)
def test_what_beats_show(beats: list[int], is_silent: bool, is_stopped: bool) -> None:
    """Another beat is a sign of life; a query that was stopped, even just now, is not running."""
    signs = SignsOfLife()
    for beat in beats:
        signs.see({"M1": mark(beat)})
    assert (signs.silent == {"M1": mark(0)}) is is_silent
    assert (signs.stopped == {"M1": mark(0)}) is is_stopped


def test_each_query_is_judged_alone() -> None:
    signs = SignsOfLife()
    signs.see({"M1": mark(4), "M2": mark(4), "M3": mark(0)})
    signs.see({"M1": mark(5), "M2": mark(4), "M3": mark(0)})
    assert (sorted(signs.silent), sorted(signs.stopped)) == (["M2", "M3"], ["M3"])


def test_the_newest_mark_counts() -> None:
    """Topics that the query no longer reads keep an older one."""
    texts = {
        ("orders", 0): CommittedText(9, mark(80, begun=4).to_text()),
        ("returns", 0): CommittedText(9, mark(90, begun=4).to_text()),
        ("invoices", 0): CommittedText(9, mark(99, begun=3).to_text()),
        ("notes", 0): CommittedText(9, "somebody else's"),
    }
    newest = newest_mark(texts)
    assert newest is not None
    assert (newest.begun, newest.beat) == (4, 90)
    assert newest_mark({}) is None
