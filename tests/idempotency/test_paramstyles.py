"""Statements in every parameter style of DB-API."""

from __future__ import annotations

import pytest

from kshare.errors import ConfigError
from kshare.idempotency.paramstyles import render


@pytest.mark.parametrize(
    ("paramstyle", "expected"),
    [
        ("qmark", ("a = ? AND b = ?", (1, 2))),
        ("numeric", ("a = :1 AND b = :2", (1, 2))),
        ("named", ("a = :p1 AND b = :p2", {"p1": 1, "p2": 2})),
        ("format", ("a = %s AND b = %s", (1, 2))),
        ("pyformat", ("a = %(p1)s AND b = %(p2)s", {"p1": 1, "p2": 2})),
    ],
)
def test_all_styles(paramstyle: str, expected: object) -> None:
    assert render("a = ? AND b = ?", [1, 2], paramstyle) == expected


def test_statements_without_parameters_stay_the_same() -> None:
    assert render("SELECT 1", [], "format") == ("SELECT 1", ())


def test_unknown_styles_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"paramstyle='dollar'.*qmark, numeric, named, format, pyformat"):
        render("SELECT 1", [], "dollar")
