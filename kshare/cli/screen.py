"""Lines for whoever reads them: coloured and cut to the window on a terminal, plain and whole everywhere else.

Decides when there are colours (NO_COLOR and FORCE_COLOR are heeded). Escape sequences in data never reach a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from kshare.cli.failure import ClosedPipe

Part = tuple[str, str]
"""Text and the style that it has."""


class Screen:
    """Standard output."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False)
        self.is_plain = not self._console.is_terminal
        self.width = self._console.width

    def line(self, *parts: Part) -> None:
        if self.is_plain:
            self.text("".join(text for text, _ in parts).rstrip() + "\n")
            return
        text = Text.assemble(*_harmless(parts))
        text.rstrip()
        try:
            self._console.print(text, no_wrap=True, overflow="ellipsis")
        except BrokenPipeError:
            raise ClosedPipe from None

    def text(self, text: str) -> None:
        """As it is."""
        try:
            sys.stdout.write(text)
        except BrokenPipeError:
            raise ClosedPipe from None

    def done(self) -> None:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            raise ClosedPipe from None


def _harmless(parts: Iterable[Part]) -> Iterable[Part]:
    for text, style in parts:
        yield "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text), style
