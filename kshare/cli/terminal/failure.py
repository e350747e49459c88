"""Exceptions with which commands end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kshare.errors import ConfigError


class Failure(Exception):
    """A command failed. Each text is a line for stderr; the exit code is 1."""

    def __init__(self, *lines: str) -> None:
        super().__init__(*lines)

    @property
    def lines(self) -> tuple[str, ...]:
        return self.args

    def __str__(self) -> str:
        return "\n".join(self.lines)


class Misuse(Failure):
    """The command line is invalid: the exit code is 2."""


class ClosedPipe(Exception):
    """The reader of our output is gone. Not an OSError, because typer handles those itself."""


@contextmanager
def misuse() -> Iterator[None]:
    """What is done with options of the command line: a ConfigError about them is a Misuse."""
    try:
        yield
    except ConfigError as problem:
        raise Misuse(*problem.lines) from None
