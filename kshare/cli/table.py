"""Rows in columns, as wide as what is in them; or the same rows as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kshare.cli.screen import Screen

_GAP = "  "


def show(
    screen: Screen, heads: Sequence[str], rows: Sequence[Sequence[object]], numbers: Sequence[str] = ()
) -> None:
    """`numbers` are the heads of columns that are set to the right; None is shown as a dash."""
    cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(heads, *cells, strict=True)]
    for index, row in enumerate([list(heads), *cells]):
        style = "bold" if index == 0 else ""
        parts = [
            text.rjust(width) if head in numbers else text.ljust(width)
            for text, width, head in zip(row, widths, heads, strict=True)
        ]
        screen.line((_GAP.join(parts), style))


def show_json(screen: Screen, value: object) -> None:
    screen.text(json.dumps(value, indent=2, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    return asdict(value)
