"""What is said of a group that isn't there: its name, and the nearest of those that are."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_NEAREST = 3


def no_group(name: str, known: Iterable[str]) -> str:
    """no group 'pinters'; did you mean 'printers'?"""
    near = nearest(name, known)
    meant = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"no group {name!r}{meant}"


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Names that are easily taken for this one, the likeliest first."""
    return get_close_matches(name, list(known), _NEAREST)
