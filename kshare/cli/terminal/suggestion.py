"""Suggests names for one that was misspelt."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_MOST = 3


def did_you_mean(name: str, known: Iterable[str], most: int = _MOST) -> str:
    """The end of an error message, such as "; did you mean 'orders'?". Empty if no known name is similar."""
    near = get_close_matches(name, list(known), most)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
