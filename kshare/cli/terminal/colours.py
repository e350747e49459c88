"""Colours of styles, the same in all views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

PROBLEM = "bold red"
FAINT = "bright_black"
NAME = "bold"
NOTE = "italic green"
COLOURS = {
    "plain": "",
    "faint": FAINT,
    "name": NAME,
    "note": NOTE,
    "error": PROBLEM,
    "text": "green",
    "id": "magenta",
    "bytes": "yellow",
    "number": "cyan",
    "acquired": "cyan",
    "acknowledged": "green",
    "forbidden": PROBLEM,
    "harmful": "bold yellow",
    "forbidden-text": "red",
    "harmful-text": "yellow",
}
"""By the names of kshare/wire/styles.py."""


def styled(parts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Texts with the names of their styles, as parts of a line of the screen."""
    for text, style in parts:
        yield text, COLOURS[style]
