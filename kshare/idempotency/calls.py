"""Whether the code that runs is inside a call that is made once: what it does besides returning isn't repeated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_name: ContextVar[str | None] = ContextVar("kshare idempotent call", default=None)


def idempotent_call() -> str | None:
    """The name of the function that is being called once, if any."""
    return _name.get()


@contextmanager
def inside_call(name: str) -> Iterator[None]:
    before = _name.set(name)
    try:
        yield
    finally:
        _name.reset(before)
