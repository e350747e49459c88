"""Text that comes from others (names, records, brokers' messages) for log lines, terminals, pipes and pages.

Decides what is harmless: nothing that ends a line, moves a cursor, changes the direction of text or can't be seen.
"""

from __future__ import annotations

import re

_UNSEEN = "\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
_HARMFUL = re.compile(f"[\x00-\x1f{_UNSEEN}]")
_HARMFUL_IN_LINES = re.compile(f"[\x00-\x08\x0b-\x1f{_UNSEEN}]")


def escaped(text: str) -> str:
    r"""Control characters and lone surrogates become escapes, as Python writes them: `\x1b`, `\n`, `\ud800`."""
    return _HARMFUL.sub(_escape, text)


def escaped_lines(text: str) -> str:
    """The same for text that may have several lines, and tabs."""
    return _HARMFUL_IN_LINES.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
