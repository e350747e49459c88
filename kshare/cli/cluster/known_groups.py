"""What is said of a group that isn't there: its name, and the nearest of those that are."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_NEAREST = 3


def no_group(name: str, known: Iterable[str]) -> str:
    """no group 'pinters'; did you mean 'printers'?"""
    return f"no group {name!r}{or_nearest_group(name, known)}"


def or_nearest_group(name: str, known: Iterable[str]) -> str:
    """Behind what is said of a group that isn't there: those it may be mistaken for, or nothing."""
    near = get_close_matches(name, list(known), _NEAREST)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
