"""How a command says that it failed."""

from __future__ import annotations


class Failure(Exception):
    """The reason on one line, for stderr; the exit code is 1."""


class ClosedPipe(Exception):
    """Nobody reads what is written. No OSError, as typer has an opinion of its own about those."""
