"""Writes SQL statements in the parameter style of a DB-API driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kshare.errors import ConfigError

Parameters = Sequence[object] | Mapping[str, object]

_MARKS = {"qmark": "?", "numeric": ":{}", "named": ":p{}", "format": "%s", "pyformat": "%(p{})s"}


def render(statement: str, values: Sequence[object], paramstyle: str) -> tuple[str, Parameters]:
    """Replace the question marks of a statement, and arrange the values accordingly."""
    check_paramstyle(paramstyle)
    first, *rest = statement.split("?")
    marks = (_MARKS[paramstyle].format(number) for number in range(1, len(rest) + 1))
    text = first + "".join(mark + part for mark, part in zip(marks, rest, strict=True))
    if paramstyle in ("named", "pyformat"):
        return text, {f"p{number}": value for number, value in enumerate(values, 1)}
    return text, tuple(values)


def check_paramstyle(paramstyle: str) -> None:
    if paramstyle not in _MARKS:
        raise ConfigError(
            f"paramstyle={paramstyle!r} isn't one of DB-API's: {', '.join(_MARKS)}. Pass the driver's own: its module "
            "has an attribute paramstyle."
        )
