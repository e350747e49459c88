"""Wording of counts, offset ranges, times and suggestions, for messages and pages.

Counts have separators: 1,050 records. Offsets, partitions and ids have none, because they are names: offset 1050.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from datetime import UTC, datetime

from kshare.log_text import escaped

_MOST_SUGGESTIONS = 3
_LIKENESS = 0.6
"""How similar a name must be to be suggested, of 1."""


def counted(count: int, noun: str, plural: str = "s") -> str:
    """1 record, 12,345 records"""
    return f"{count:,} {noun}{'' if count == 1 else plural}"


def span(first: int, last: int) -> str:
    """17, or 17..20"""
    return str(first) if first == last else f"{first}..{last}"


def duration(seconds: float) -> str:
    """90 s, 12 min, 5 h, 3 days"""
    seconds = max(0.0, seconds)
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 2 * 86_400 else f"{seconds / 86_400:,.0f} days"


def time_limit(seconds: float) -> str:
    """0.25 s, 15 s. What is left of a limit is rounded up: a few milliseconds of it have passed already."""
    if seconds != round(seconds, 2):
        seconds = round(seconds + 0.04, 1) or (0.1 if seconds > 0 else 0.0)
    return f"{max(0.0, seconds):g} s"


def not_connected(limit: float) -> str:
    """That there was no connection within a limit, of which nothing may have been left."""
    text = time_limit(limit)
    return f"not connected within {text}" if text != "0 s" else "no time was left to connect"


def iso_time(milliseconds: int, precision: str = "milliseconds") -> str:
    """A time in UTC; a dash if it is negative (none) or out of range. `precision` may be `seconds`."""
    try:
        time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return "-"
    return "-" if milliseconds < 0 else time.isoformat(timespec=precision).replace("+00:00", "Z")


def did_you_mean(name: str, known: Iterable[str], most: int = _MOST_SUGGESTIONS) -> str:
    """The end of an error message, such as "; did you mean 'orders'?". Empty if no known name is similar."""
    near = _similar(name, known, most)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Of names that aren't quoted, such as those of options: "did you mean linger?". Empty if none is similar."""
    near = nearest_name(name, known)
    return f"did you mean {near}?" if near else ""


def nearest_name(name: str, known: Iterable[str], likeness: float = _LIKENESS) -> str:
    """The known name that is most like this one. Empty if none is similar."""
    near = _similar(name, known, 1, likeness)
    return near[0] if near else ""


def _similar(name: str, known: Iterable[str], most: int, likeness: float = _LIKENESS) -> list[str]:
    from difflib import get_close_matches  # rarely needed, and slow to import

    return get_close_matches(name, list(known), most, likeness)


def no_group(name: str, known: Iterable[str]) -> str:
    """For example: no group 'pinters'; did you mean 'printers'?"""
    return f"no group {name!r}{did_you_mean(name, known)}"


def shell_word(text: str) -> str:
    r"""A word of a suggested command. Names with control characters are written as `$'a\x1bb'`.

    A terminal would obey these when the command is pasted, whatever quotes are around them.
    """
    if escaped(text) == text:
        return shlex.quote(text)
    signs = (_shell_sign(sign) for sign in text)
    return f"$'{''.join(signs)}'"


def shell_line(words: Iterable[str]) -> str:
    """A suggested command."""
    return " ".join(map(shell_word, words))


def _shell_sign(sign: str) -> str:
    if sign in "\\'":
        return f"\\{sign}"
    if escaped(sign) == sign:
        return sign
    return "".join(f"\\x{byte:02x}" for byte in sign.encode("utf-8", "surrogatepass"))
