"""Prints lines: coloured and cut to the window's width on a terminal, plain and complete otherwise.

NO_COLOR and FORCE_COLOR are respected. Escape sequences in data never reach a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.text import Text

from kshare.cli.terminal.failure import closed_pipe
from kshare.log_text import escaped, replaced

if TYPE_CHECKING:
    from rich.live import Live

Part = tuple[str, str]
"""Text and its style."""
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


class Screen:
    """Standard output."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False)
        self.is_plain = not self._console.is_terminal
        self.width = self._console.width
        self._drawing: Live | None = None

    @property
    def is_redrawn(self) -> bool:
        """Whether `redraw` replaces what it drew before."""
        return self._drawing is not None

    @contextmanager
    def redrawn(self) -> Iterator[None]:
        """On a terminal, `redraw` may be used while this is open. Otherwise nothing can be redrawn."""
        if self.is_plain:
            yield
            return
        from rich.live import Live

        with Live(console=self._console, auto_refresh=False) as self._drawing:
            try:
                yield
            finally:
                self._drawing = None

    def redraw(self, lines: Iterable[Sequence[Part]]) -> None:
        """Draw as many lines as fit into the window."""
        assert self._drawing is not None
        rows = [Text.assemble(*_harmless(parts), no_wrap=True, overflow="ellipsis") for parts in lines]
        self._drawing.update(Group(*rows), refresh=True)

    def line(self, *given: Part | str) -> None:
        """Print a line. A text alone has no style."""
        parts = [(part, "") if isinstance(part, str) else part for part in given]
        if self.is_plain:
            self.text(escaped("".join([text for text, _ in parts]).rstrip()) + "\n")
            return
        text = Text.assemble(*_harmless(parts))
        text.rstrip()
        with closed_pipe():
            self._console.print(text, no_wrap=True, overflow="ellipsis")

    def paragraph(self, first: Part, text: str, margin: int) -> None:
        """Print text wrapped beside its first part, not cut; in a pipe, on one line."""
        if self.is_plain:
            self.text(f"{escaped(first[0] + text)}\n")
            return
        ((shown, style),) = _harmless([first])
        harmless = "".join(part for part, _ in _harmless([(text, "")]))
        rows = wrap(harmless, max(self.width - margin, 20), break_on_hyphens=False) or [""]
        for index, row in enumerate(rows):
            self.whole((shown if index == 0 else " " * margin, style), (row, ""))

    def whole(self, *parts: Part) -> None:
        """Print a line without cutting it, so that it can be copied."""
        if self.is_plain:
            self.line(*parts)
            return
        with closed_pipe():
            self._console.print(Text.assemble(*_harmless(parts)), soft_wrap=True)

    def text(self, text: str) -> None:
        """Write text unchanged."""
        with closed_pipe():
            sys.stdout.write(text)

    def done(self) -> None:
        with closed_pipe():
            sys.stdout.flush()


def styled(parts: Iterable[tuple[str, str]]) -> Iterator[Part]:
    """Texts with the names of their styles, as parts of a line of the screen."""
    return ((text, COLOURS[style]) for text, style in parts)


def _harmless(parts: Iterable[Part]) -> Iterator[Part]:
    return ((replaced(text), style) for text, style in parts)
