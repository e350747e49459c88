"""The storms' judge tells records that brokers had forgotten to be accepted from records that were emitted twice."""

from __future__ import annotations

import pytest

from tests.spark.gone_back import emitted_twice, may_go_back, unexplained

TOPIC = "7d039c3e-f7d6-42b6-9791-eb02192388f8"


def token(**starts: int) -> dict[str, dict[str, dict[str, int]]]:
    return {"starts": {TOPIC: {number.removeprefix("p"): start for number, start in starts.items()}}}


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("4.1.2", True),
        ("4.3.1", True),
        ("4.4.0", False),
        ("4.10.0", False),
        ("5.0.0", False),
        ("embedded", False),
    ],
)
def test_releases_that_have_the_defect(release: str, expected: bool) -> None:
    assert may_go_back(release) is expected


def test_what_comes_after_an_offset_that_went_back_is_explained_once() -> None:
    tokens = [token(p0=5, p1=8), {}, token(p0=5, p1=3), token(p0=9, p1=10)]

    def doubled(*records: tuple[int, int]) -> list[tuple[int, int]]:
        return unexplained(emitted_twice([*records, *records]), tokens)

    assert doubled((1, 3), (1, 9)) == []
    assert doubled((1, 2)) == [(1, 2)], "before the offset to which it went back"
    assert doubled((0, 7)) == [(0, 7)], "in a partition that didn't go back"
    assert unexplained(emitted_twice([(1, 4)] * 3), tokens) == [(1, 4)], "it went back only once"


def test_starts_that_only_rise_explain_nothing() -> None:
    twice = emitted_twice([(0, 1), (0, 1), (0, 2)])
    assert unexplained(twice, [token(p0=0), token(p0=0), token(p0=4)]) == [(0, 1)]
    assert unexplained(twice, []) == [(0, 1)]
