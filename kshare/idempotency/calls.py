"""Whether the code that runs is inside a call that is made once: what it does besides returning isn't repeated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Call:
    """A call that is made once for its key."""

    __slots__ = ("function", "has_result", "outer")

    def __init__(self, function: str, outer: Call | None) -> None:
        self.function = function
        self.outer = outer
        """The call that this one is made in, if any."""
        self.has_result = True
        """Whether what it returns is its result."""


_call: ContextVar[Call | None] = ContextVar("kshare idempotent call", default=None)


def idempotent_call() -> Call | None:
    """The innermost call that is made once, if any."""
    return _call.get()


def give_up_results() -> None:
    """The code that runs has put its work off, or given it up: what the calls around it return isn't a result."""
    call = _call.get()
    while call is not None:
        call.has_result = False
        call = call.outer


@contextmanager
def inside_call(function: str) -> Iterator[Call]:
    outer = _call.get()
    call = Call(function, outer)
    before = _call.set(call)
    try:
        yield call
    finally:
        _call.reset(before)
