"""How the bytes of a record are shown, whatever they are."""

from __future__ import annotations

import json

import pytest

from kshare.web.content import content, visible

LIMIT = 4096


@pytest.mark.parametrize(
    ("data", "view", "text"),
    [
        (b'{"a":[1,2]}', "auto", '{\n  "a": [\n    1,\n    2\n  ]\n}'),
        (b'{"a":[1,2]}', "text", '{"a":[1,2]}'),
        (b"{broken", "auto", "{broken"),
        ("grün\n\tb".encode(), "auto", "grün\n\tb"),
        (b"a\x1b[31m", "text", "a\\x1b[31m"),
        ("a\u202eb".encode(), "text", "a\\u202eb"),
        (b"\xffa", "text", "\\xffa"),
        (b"\xffa", "auto", f"00000000  {'ff 61':47}  .a"),
        (b"ab", "hex", f"00000000  {'61 62':47}  ab"),
        (b"", "auto", ""),
    ],
)
def test_forms(data: bytes, view: str, text: str) -> None:
    found = content(data, view, LIMIT)
    assert (found.text, found.size, found.is_cut) == (text, len(data), False)


@pytest.mark.parametrize("view", ["auto", "text", "hex"])
def test_long_values_are_cut(view: str) -> None:
    found = content("ü".encode() * 5_000_000, view, LIMIT + 1)
    assert found.is_cut
    assert found.size == 10_000_000
    assert len(found.text) <= 2 * LIMIT
    assert view == "hex" or set(found.text) <= set("ü\\xc3")


@pytest.mark.lengthy
def test_layout_of_nested_json_stays_small() -> None:
    """Indentation of deep values would take many times their size."""
    deep = b"[" + b",".join([b"[" * 50 + b"1,1,1" + b"]" * 50] * 9_000) + b"]"
    found = content(deep, "auto", 1 << 20)
    assert found.is_cut
    assert len(found.text) == 1 << 20


def test_json_that_is_nested_too_deeply_is_text() -> None:
    deep = b"[" * 100_000
    assert content(deep, "auto", 1 << 20).text == deep.decode()


def test_numbers_of_json_that_are_too_long_are_text() -> None:
    number = b"[" + b"1" * 10_000 + b"]"
    assert content(number, "auto", 1 << 20).text == number.decode()


def test_plain_text_is_visible_as_it_is() -> None:
    assert visible("a b") == "a b"
    assert visible("a\u3164\u2003") == "a\\u3164\\u2003"
    assert visible("\x00\u2066") == "\\x00\\u2066"
    assert json.loads(content(b'{"a": "\\u0000"}', "auto", LIMIT).text.replace("\\\\", "\\")) is not None
