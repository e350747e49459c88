"""Shows a part of many rows: filtered by name, sorted by a column, and a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    rows: Sequence[T]
    number: int
    """The first page is 1."""
    count: int
    """How many pages there are."""
    total: int
    """How many rows there are on all pages."""


def page_of(rows: Sequence[T], number: str | None, size: int) -> Page[T]:
    """The page of this number, or the nearest one."""
    count = max(1, -(-len(rows) // size))
    at = int(number) if number and number.isascii() and number.isdigit() and len(number) < 10 else 1
    at = min(max(1, at), count)
    return Page(rows[(at - 1) * size : at * size], at, count, len(rows))


def ordered(rows: Sequence[T], value: Callable[[T], object], *, descending: bool) -> list[T]:
    """Sorted by a value. Unknown values come last in either order."""
    known = [row for row in rows if value(row) is not None]
    unknown = [row for row in rows if value(row) is None]
    known.sort(key=lambda one: _comparable(value(one)), reverse=descending)
    return known + unknown


def _comparable(value: object) -> tuple[float, str]:
    return (float(value), "") if isinstance(value, int | float) else (0.0, str(value).casefold())


def chosen(parameters: Mapping[str, str], name: str, choices: Sequence[str]) -> str:
    """A parameter that must be one of these; the first if it isn't."""
    value = parameters.get(name, "")
    return value if value in choices else choices[0]
