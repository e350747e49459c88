"""A progress line on stderr, overwritten in place, if stderr is a terminal."""

from __future__ import annotations

import sys

from kshare.log_text import escaped


class ProgressLine:
    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._width = 0

    def show(self, text: str) -> None:
        if self._is_shown:
            sys.stderr.write(f"\r{escaped(text).ljust(self._width)}")
            sys.stderr.flush()
            self._width = len(text)

    def done(self) -> None:
        """Remove it."""
        if self._width:
            sys.stderr.write(f"\r{' ' * self._width}\r")
            sys.stderr.flush()
