"""Keeps the errors that Spark shows readable: our own ones without their tracebacks."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from kshare.errors import KshareError

P = ParamSpec("P")
T = TypeVar("T")


def with_plain_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Cut off the traceback of our errors, which Spark would show, so that only the message is left."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except KshareError as error:
            raise error.with_traceback(None) from None

    return guarded
