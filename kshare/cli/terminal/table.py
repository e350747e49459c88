"""Prints rows as a table or as JSON.

If the terminal is too narrow, the last column is wrapped, beside the others if there is room, so that nothing is cut.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from textwrap import wrap

from kshare.cli.terminal.screen import Part, Screen

_GAP = "  "
_INDENT = " " * 4
_NARROWEST = 8
"""The least width, in characters, at which wrapped text is readable."""


def show(
    screen: Screen, heads: Sequence[str], rows: Sequence[Sequence[object]], numbers: Sequence[str] = ()
) -> None:
    """Print a table; see `table_lines`."""
    for line in table_lines(screen, heads, rows, numbers):
        screen.line(line)


def table_lines(
    screen: Screen, heads: Sequence[str], rows: Sequence[Sequence[object]], numbers: Sequence[str] = ()
) -> Iterator[Part]:
    """The lines of a table. `numbers` are the headings of right-aligned columns; None is shown as a dash."""
    cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(heads, *cells, strict=True)]
    for index, row in enumerate([list(heads), *cells]):
        style = "bold" if index == 0 else ""
        parts = [
            text.rjust(width) if head in numbers else text.ljust(width)
            for text, width, head in zip(row, widths, heads, strict=True)
        ]
        for line in [_GAP.join(parts)] if screen.is_plain else _folded(parts, screen.width):
            yield line, style


def _folded(parts: Sequence[str], width: int) -> Iterator[str]:
    """One line if it fits; otherwise the last part is wrapped."""
    *others, last = parts
    first = _GAP.join([*others, ""]) if others else ""
    last = last.rstrip()
    available = width - len(first)
    if len(last) <= available:
        yield first + last
    elif available >= _NARROWEST:
        for index, row in enumerate(wrap(last, available)):
            yield (first if index == 0 else " " * len(first)) + row
    else:
        yield first
        yield from wrap(last, width, initial_indent=_INDENT, subsequent_indent=_INDENT)


def show_json(screen: Screen, value: object) -> None:
    screen.text(json.dumps(value, indent=2, default=asdict) + "\n")


def print_rows(
    is_json: bool,
    form: object,
    heads: Sequence[str],
    rows: Sequence[Sequence[object]],
    numbers: Sequence[str] = (),
    nothing: str | None = None,
) -> None:
    """The output of a command: rows as a table, or what `nothing` says if there are none; or `form` as JSON."""
    screen = Screen()
    if is_json:
        show_json(screen, form)
    elif rows or nothing is None:
        show(screen, heads, rows, numbers)
    else:
        screen.line(nothing)
    screen.done()


def print_done(is_json: bool, form: object, text: str) -> None:
    """The output of a command that has changed something: a line, or `form` as JSON."""
    screen = Screen()
    if is_json:
        show_json(screen, form)
    else:
        screen.line(text)
    screen.done()
