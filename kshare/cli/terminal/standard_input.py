"""Standard input of commands that read files. Python has none when the shell closed it (`<&-`)."""

from __future__ import annotations

import sys
from typing import TextIO

from kshare.cli.terminal.failure import Failure


def standard_input() -> TextIO:
    """Raises Failure when standard input is closed."""
    # typeshed has no None here, Python does.
    given: TextIO | None = sys.stdin
    if given is None:
        raise Failure("standard input is closed")
    return given


def piped_input(hint: str) -> TextIO:
    """Standard input. Raises Failure with this hint if it is a terminal."""
    given = standard_input()
    if given.isatty():
        raise Failure(hint)
    return given
