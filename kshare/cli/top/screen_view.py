"""The live screen: view, sorting, scrolling, keys, and its lines for a window of any size. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from textwrap import wrap

from kshare.cli.terminal.screen import PROBLEM
from kshare.log_text import replaced
from kshare.monitor.figures import COLUMNS, UNKNOWN, Cell, Column, Figures, Row, TableView
from kshare.wording import counted

ScreenLine = list[tuple[str, str]]
"""Pieces of text, with their styles."""

_KEYS = "g groups  p partitions  m members  < > sort  r reverse  ? help  q quit"
_HELP_KEYS = (
    ("g p m", "groups, partitions, members"),
    ("< >", "sort by the column to the left, to the right"),
    ("r", "reverse the order"),
    ("up down", "scroll; also page up, page down, j, k"),
    ("space", "pause, and continue"),
    ("q", "quit; so does Ctrl-C"),
)
_NARROWEST = 6
_NOTES_PART = 3
"""Notes get at most one third of the height of the table."""
_MIN_ROWS = 1


class TopScreen:
    def __init__(self, where: str, view: TableView, sort: str | None, interval: float) -> None:
        self.view = view
        self.is_over = False
        self.is_held = False
        self._where = where
        self._interval = interval
        self._sorted = {each: "group" if each is TableView.MEMBERS else "lag" for each in TableView}
        if sort is not None:
            self._sorted[view] = sort
        self._is_reversed = {each: _column(each, name).is_number for each, name in self._sorted.items()}
        self._is_helping = False
        self._top = 0
        self._page = 10

    def press(self, key: str) -> None:
        """Handle a key. Unknown keys are ignored."""
        views = {"g": TableView.GROUPS, "p": TableView.PARTITIONS, "m": TableView.MEMBERS}
        steps = {"down": 1, "j": 1, "up": -1, "k": -1, "pagedown": self._page, "pageup": -self._page}
        if self._is_helping:
            self._is_helping = False
            self.is_over = key == "q"
        elif key in views:
            self.view, self._top = views[key], 0
        elif key in steps:
            self._top = max(0, self._top + steps[key])
        elif key in ("<", ">", "left", "right"):
            self._move_sorting(1 if key in (">", "right") else -1)
        elif key == "r":
            self._is_reversed[self.view] = not self._is_reversed[self.view]
        elif key == " ":
            self.is_held = not self.is_held
        elif key == "?":
            self._is_helping = True
        elif key == "q":
            self.is_over = True

    def lines(
        self, figures: Figures, width: int, height: int, problem: str | None = None
    ) -> list[ScreenLine]:
        """Exactly `height` lines."""
        head, foot = self._head(figures, width, problem), [(_KEYS[:width], "dim")]
        rows = max(_MIN_ROWS, height - 2)
        shown = [] if self._is_helping else _wrapped_notes(figures, width)[: rows // _NOTES_PART]
        notes: list[ScreenLine] = [[(row, PROBLEM)] for row in shown]
        body = _help(self.view, width) if self._is_helping else self._table(figures, width, rows - len(notes))
        body += notes
        body = body[:rows]
        return [head, *body, *([[]] * (rows - len(body))), foot][:height]

    def rows(self, figures: Figures) -> list[Row]:
        """The rows, sorted. Unknown values come last in either order."""
        name = self._sorted[self.view]
        known = [row for row in figures.rows[self.view] if row[name] is not None]
        unknown = [row for row in figures.rows[self.view] if row[name] is None]
        known.sort(key=lambda row: _sortable(row[name]), reverse=self._is_reversed[self.view])
        return known + unknown

    def _head(self, figures: Figures, width: int, problem: str | None) -> ScreenLine:
        clock = datetime.fromtimestamp(figures.time).strftime("%H:%M:%S")
        totals = figures.summary
        summary = f"groups {totals['groups']:,}, members {totals['members']:,}, lag {totals['lag']:,}"
        if totals["unknown_lags"]:
            summary += f" (unknown for {counted(totals['unknown_lags'], 'group')})"
        left = f"kshare top  {self._where}  {summary}"
        right = "paused  " if self.is_held else ""
        right += f"{clock} every {self._interval:g} s"
        if problem:
            return [(f"kshare top  {problem}"[:width], PROBLEM)]
        if len(left) + len(right) + 2 > width:
            left = f"kshare top  {summary}"
        return [(f"{left}{' ' * max(2, width - len(left) - len(right))}{right}"[:width], "bold")]

    def _table(self, figures: Figures, width: int, max_rows: int) -> list[ScreenLine]:
        columns, rows = COLUMNS[self.view], self.rows(figures)
        self._page = max(1, max_rows - 1)
        self._top = max(0, min(self._top, len(rows) - self._page))
        shown = [[_text(row[column.name], column) for column in columns] for row in rows]
        widths = _fitted(columns, shown, width)
        sort, mark = self._sorted[self.view], "v" if self._is_reversed[self.view] else "^"
        heads: ScreenLine = []
        for column, column_width in zip(columns, widths, strict=True):
            is_chosen = column.name == sort
            head = (mark if is_chosen and len(column.head) < column_width else "") + column.head
            heads.append(
                (_set(head, column_width, column) + "  ", "reverse bold" if is_chosen else "reverse")
            )
        lines = [heads]
        for cells in shown[self._top : self._top + self._page]:
            parts = [
                _set(text, column_width, column)
                for text, column_width, column in zip(cells, widths, columns, strict=True)
            ]
            lines.append([("  ".join(parts), "")])
        if not rows:
            has_none = self.view is TableView.GROUPS and not figures.notes
            lines.append([("no visible share groups" if has_none else "no rows", "dim")])
        return lines

    def _move_sorting(self, step: int) -> None:
        names = [column.name for column in COLUMNS[self.view]]
        at = (names.index(self._sorted[self.view]) + step) % len(names)
        self._sorted[self.view] = names[at]
        self._is_reversed[self.view] = COLUMNS[self.view][at].is_number


def notes_height(figures: Figures, width: int) -> int:
    """How many more lines a window needs to show all notes."""
    return len(_wrapped_notes(figures, width)) * _NOTES_PART


def _wrapped_notes(figures: Figures, width: int) -> list[str]:
    """Wrapped, because what to do comes last."""
    return [
        row
        for note in figures.notes
        for row in wrap(f"! {note}", width, subsequent_indent="  ", break_on_hyphens=False)
    ]


def _column(view: TableView, name: str) -> Column:
    return next(column for column in COLUMNS[view] if column.name == name)


def _help(view: TableView, width: int) -> list[ScreenLine]:
    lines: list[ScreenLine] = []
    explained = [(column.head, column.about) for column in COLUMNS[view] if column.about]
    lines += [_pair(head, description, width) for head, description in explained]
    lines += [[], *([("  " + row, "")] for row in wrap(UNKNOWN, max(20, width - 2))), []]
    lines += [_pair(keys, description, width) for keys, description in _HELP_KEYS]
    return [*lines, [("  press any key to return", "dim")]]


def _pair(name: str, description: str, width: int) -> ScreenLine:
    return [(f"  {name:<9}", "bold"), (description[: max(0, width - 11)], "")]


def _fitted(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Column widths that fit the contents. If that is too wide, text columns are narrowed, the widest first."""
    widths = [
        max(len(column.head) + 1, *(len(row[index]) for row in rows)) if rows else len(column.head) + 1
        for index, column in enumerate(columns)
    ]
    spare = width - sum(widths) - 2 * (len(widths) - 1)
    while spare < 0:
        texts = [index for index, column in enumerate(columns) if not column.is_number]
        widest = max(texts, key=lambda index: widths[index])
        if widths[widest] <= _NARROWEST:
            break
        widths[widest] -= 1
        spare += 1
    return widths


def _set(text: str, width: int, column: Column) -> str:
    cut = text if len(text) <= width else text[: width - 1] + "…"
    return cut.rjust(width) if column.is_number else cut.ljust(width)


def _sortable(cell: Cell) -> tuple[bool, float, str]:
    return (True, 0.0, cell) if isinstance(cell, str) else (False, float(cell or 0), "")


def _text(cell: Cell, column: Column) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return replaced(cell)
    if column.name == "oldest_seconds":
        return _age(cell)
    if column.name.endswith("_per_second"):
        return _short(cell, digits=1)
    return _short(cell)


def _short(number: float, digits: int = 0) -> str:
    """A number, shortened to a few digits."""
    for limit, unit in ((1e9, "G"), (1e6, "M")):
        if number >= limit:
            return f"{number / limit:.1f}{unit}"
    return f"{number:.{digits if number < 100 else 0}f}"


def _age(seconds: float) -> str:
    for limit, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= limit:
            count = int(seconds // limit)
            lower = {"d": (3600, "h"), "h": (60, "m"), "m": (1, "s")}[unit]
            return f"{count}{unit}{int(seconds % limit // lower[0])}{lower[1]}"
    return f"{seconds:.0f}s"
