"""What isn't written to logs as it is."""

from __future__ import annotations

import pytest

from kshare.log_text import escaped


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("café 🫖 \\ C:\\new", "café 🫖 \\ C:\\new"),
        ("\x1b[31mred\x00\x7f\x9b", r"\x1b[31mred\x00\x7f\x9b"),
        ("one\r\ntwo\tthree\u2028four", r"one\r\ntwo\tthree\u2028four"),
        ("\ud800 and \udfff", r"\ud800 and \udfff"),
        ("abc\u202ecba\u2066", r"abc\u202ecba\u2066"),
    ],
)
def test_control_characters_and_surrogates_become_escapes(text: str, line: str) -> None:
    assert escaped(text) == line
