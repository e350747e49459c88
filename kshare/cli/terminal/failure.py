"""Exceptions with which commands end."""

from __future__ import annotations


class Failure(Exception):
    """A command failed. The text is one line for stderr; the exit code is 1."""


class Misuse(Failure):
    """The command line is invalid: the exit code is 2."""


class ClosedPipe(Exception):
    """The reader of our output is gone. Not an OSError, because typer handles those itself."""
