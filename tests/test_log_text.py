"""What isn't written to logs as it is."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from kshare.log_text import escaped, escaped_lines, replaced, replaced_lines


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("café 🫖 \\ C:\\new", "café 🫖 \\ C:\\new"),
        ("\x1b[31mred\x00\x7f\x9b", r"\x1b[31mred\x00\x7f\x9b"),
        ("one\r\ntwo\tthree\u2028four", r"one\r\ntwo\tthree\u2028four"),
        ("\ud800 and \udfff", r"\ud800 and \udfff"),
        ("abc\u202ecba\u2066", r"abc\u202ecba\u2066"),
        ("a\xadb\u180ec\u200dd\u3164e\ufff9", r"a\xadb\u180ec\u200dd\u3164e\ufff9"),
        ("tag\U000e0041\ufe0f", r"tag\U000e0041\ufe0f"),
    ],
)
def test_control_characters_and_surrogates_become_escapes(text: str, line: str) -> None:
    assert escaped(text) == line


_CATEGORIES = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
_MARKLESS = {*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)} | {
    *(0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2800, 0x3164, 0xFFA0)
}
"""Letters, marks and a pattern of no dots, which leave no mark."""


@pytest.mark.lengthy
def test_nothing_passes_that_can_not_be_seen() -> None:
    for code in range(sys.maxunicode + 1):
        sign = chr(code)
        is_unseen = unicodedata.category(sign) in _CATEGORIES or code in _MARKLESS
        if is_unseen or unicodedata.category(sign) not in ("Cn", "Mn"):
            assert (escaped(sign) != sign) == is_unseen, hex(code)


def test_lines_and_columns() -> None:
    assert escaped_lines("a\tb\nc\rd\u3164") == "a\tb\nc\\rd\\u3164"
    assert replaced("a\tb\u3164é") == "a\ufffdb\ufffdé"
    assert replaced_lines("a\tb\nc\x1b") == "a\tb\nc\ufffd"
