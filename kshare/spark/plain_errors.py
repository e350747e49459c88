"""Cuts off the tracebacks of our errors, which Spark would show to users."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from kshare.errors import KshareError

P = ParamSpec("P")
T = TypeVar("T")


def with_plain_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Only the message of a KshareError is left."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except KshareError as error:
            raise error.with_traceback(None) from None

    return guarded
