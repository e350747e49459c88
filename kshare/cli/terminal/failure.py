"""Exceptions with which commands end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
def closed_pipe() -> Iterator[None]:
    """What is done with our output: a BrokenPipeError is a ClosedPipe."""
    try:
        yield
    except BrokenPipeError:
        raise ClosedPipe from None


@contextmanager
def misuse() -> Iterator[None]:
    """What is done with options of the command line: a ConfigError about them is a Misuse."""
    try:
        yield
    except ConfigError as problem:
        raise Misuse(*problem.lines) from None


def usage_text(problem: Any) -> str:
    """The text of typer's error."""
    errors = getattr(problem.__cause__, "errors", None)
    if errors is not None and hasattr(problem, "message"):
        problem.message = _value_text(errors()[0], problem.message)
    return str(getattr(problem, "format_message", problem.__str__)())


def _value_text(error: dict[str, Any], text: str) -> str:
    """The reason why a value is invalid. `text` is pydantic's."""
    bounds = error.get("ctx", {})
    match error["type"]:
        case "int_parsing" | "int_from_float" | "int_type" | "int_parsing_size":
            return f"{error['input']!r} is not a whole number"
        case "float_parsing" | "float_type":
            return f"{error['input']!r} is not a number"
        case "greater_than_equal":
            return f"must be {bounds['ge']:g} or more"
        case "less_than_equal":
            return f"must be {bounds['le']:g} or less"
        case "value_error":
            return text.removeprefix("Value error, ").removesuffix(".")
    return text
