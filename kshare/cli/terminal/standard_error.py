"""Standard error: messages, the log, and a progress line. Names that others chose can't forge lines of it."""

from __future__ import annotations

import logging
import sys

from kshare.log_text import escaped


def say(text: str) -> None:
    sys.stderr.write(f"kshare: {escaped(text)}\n")
    sys.stderr.flush()


class OneLineFormatter(logging.Formatter):
    """For programs: a name in a message can't begin a line of its own. Tracebacks still have their lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802, as the base class has it
        record.message = escaped(record.message)
        return super().formatMessage(record)


def log_handler(form: str) -> logging.Handler:
    """Writes to stderr, for programs."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLineFormatter(form))
    return handler


class ProgressLine:
    """A line that is overwritten in place, if stderr is a terminal."""

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
