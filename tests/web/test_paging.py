"""Which rows a page shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.web.paging import chosen, ordered, page_of


@pytest.mark.parametrize(
    ("asked", "number", "rows"),
    [
        (None, 1, [0, 1, 2]),
        ("2", 2, [3, 4, 5]),
        ("3", 3, [6]),
        ("4", 3, [6]),
        ("0", 1, [0, 1, 2]),
        ("-1", 1, [0, 1, 2]),
        ("9" * 50, 1, [0, 1, 2]),
        ("x", 1, [0, 1, 2]),
        ("²", 1, [0, 1, 2]),
    ],
)
def test_the_nearest_page_is_shown(asked: str | None, number: int, rows: list[int]) -> None:
    page = page_of(range(7), asked, 3)
    assert (list(page.rows), page.number, page.count, page.total) == (rows, number, 3, 7)


def test_no_rows_are_one_empty_page() -> None:
    page = page_of(list[str](), "5", 3)
    assert (list(page.rows), page.number, page.count) == ([], 1, 1)


@pytest.mark.lengthy
@given(st.lists(st.none() | st.integers() | st.floats(allow_nan=False)), st.booleans())
def test_unknown_values_come_last(values: list[float | None], descending: bool) -> None:
    found = ordered(values, lambda value: value, descending=descending)
    known = [value for value in found if value is not None]
    assert found == known + [None] * (len(found) - len(known))
    assert known == sorted(known, reverse=descending)


def test_unknown_choices_are_the_first() -> None:
    assert chosen({"sort": "lag"}, "sort", ["name", "lag"]) == "lag"
    assert chosen({"sort": "<script>"}, "sort", ["name", "lag"]) == "name"
    assert chosen({}, "sort", ["name", "lag"]) == "name"
