"""Text that comes from others (names, records, brokers' messages) for log lines, terminals, pipes and pages.

Decides what is harmless: nothing that ends a line, moves a cursor, changes the direction of text or can't be seen.
"""

from __future__ import annotations

import codecs
import re

_UNSEEN = (
    "\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
)
"""Of Unicode's categories Cc, Cf, Co, Cs, Zl and Zp, with letters and variation selectors that leave no mark."""
_HARMFUL = re.compile(f"[\x00-\x1f{_UNSEEN}]")
_HARMFUL_IN_LINES = re.compile(f"[\x00-\x08\x0b-\x1f{_UNSEEN}]")


codecs.lookup("unicode_escape")  # which is loaded from a file: later, there may be no descriptor left for it


def escaped(text: str) -> str:
    r"""Control characters and what can't be seen become escapes, as Python writes them: `\x1b`, `\n`, `\ud800`."""
    if text.isascii() and text.isprintable():  # nearly all are, and it is much faster
        return text
    return _HARMFUL.sub(_escape, text)


def escaped_lines(text: str) -> str:
    """The same for text that may have several lines, and tabs."""
    if text.isascii() and text.isprintable():
        return text
    return _HARMFUL_IN_LINES.sub(_escape, text)


def replaced(text: str) -> str:
    """For columns: each such character becomes a replacement character, so that the text keeps its width."""
    if text.isascii() and text.isprintable():
        return text
    return _HARMFUL.sub("\N{REPLACEMENT CHARACTER}", text)


def replaced_lines(text: str) -> str:
    """The same for text that may have several lines, and tabs."""
    return _HARMFUL_IN_LINES.sub("\N{REPLACEMENT CHARACTER}", text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
