"""Whatever the JSON is, reading it returns what was expected or says what is wrong."""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kshare.fleet.json_table import JsonTable, NotExpected, NotJson


class Color(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"1",
        b"null",
        b"{",
        b"\xff",
        b'{"a": NaN}',
        b"[" * 100_000,
        b'{"a": ' + b"9" * 10_000 + b"}",
    ],
)
def test_what_is_not_json(data: bytes) -> None:
    with pytest.raises(NotJson):
        JsonTable.parse(data)


@given(some.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    with suppress(NotExpected):
        JsonTable.parse(data).text("a")


def test_fields() -> None:
    table = JsonTable.parse(
        b'{"t": "x", "w": 3, "n": 1.5, "c": "red", "l": ["a"], "o": [{"w": 4}], "more": {}}'
    )
    assert (table.text("t"), table.whole("w"), table.number("n"), table.number("w")) == ("x", 3, 1.5, 3.0)
    assert (table.choice("c", Color), table.texts("l", 1)) == (Color.RED, ("a",))
    assert [inner.whole("w") for inner in table.tables("o", 1)] == [4]


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (lambda table: table.text("missing"), "missing must be a text"),
        (lambda table: table.text("long"), "long must be no longer than 300 characters"),
        (lambda table: table.whole("text"), "text must be a whole number from 0"),
        (lambda table: table.whole("negative"), "negative must be a whole number from 0"),
        (lambda table: table.whole("huge"), "huge must be a whole number from 0"),
        (lambda table: table.whole("yes"), "yes must be a whole number from 0"),
        (lambda table: table.whole("zero", 1), "zero must be a whole number from 1"),
        (lambda table: table.number("yes"), "yes must be a number from 0"),
        (lambda table: table.number("negative"), "negative must be a number from 0"),
        (lambda table: table.choice("text", Color), "text must be one of red, not x"),
        (lambda table: table.texts("list", 1), "list must be a list of at most 1"),
        (lambda table: table.texts("list", 9), r"list\[0\] must be a text"),
        (lambda table: table.table("list"), "list must be an object"),
        (
            lambda table: table.tables("tables", 9)[0].table("inner").text("x"),
            r"tables\[0\]\.inner\.x must be a text",
        ),
        (lambda table: table.require_schema(1), "schema 2, and this version of kshare reads schema 1"),
    ],
)
def test_what_is_wrong(read: object, reason: str) -> None:
    table = JsonTable(
        {
            "long": "x" * 301,
            "text": "x",
            "negative": -1,
            "huge": 2**63,
            "yes": True,
            "zero": 0,
            "list": [1, 2],
            "tables": [{"inner": {}}],
            "schema": 2,
        }
    )
    with pytest.raises(NotExpected, match=reason):
        read(table)  # type: ignore[operator]


def test_texts_can_be_shown() -> None:
    assert JsonTable({"a": "x\x1b[31m\n\u202e"}).text("a") == "x\\x1b[31m\\n\\u202e"
