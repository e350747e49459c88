"""Functions that users give us to call: checked when they are given, since a mistake would only show at a call.

At that time it would be one log line for each record, or a retry that never ends.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from kshare.errors import ConfigError


def is_async(function: Callable[..., Any]) -> bool:
    """Also for objects whose `__call__` is async, and for partial ones."""
    target = function.func if isinstance(function, partial) else function
    return inspect.iscoroutinefunction(target) or (
        not isinstance(target, type) and inspect.iscoroutinefunction(getattr(target, "__call__", None))  # noqa: B004
    )


def is_generator(function: Callable[..., Any]) -> bool:
    """Whether a call of it only makes a generator, async or not."""
    target = function.func if isinstance(function, partial) else function
    return any(
        inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called)
        for called in (target, getattr(target, "__call__", None))  # noqa: B004  the method of an object
    )


def takes(function: Callable[..., Any], count: int, *, follow_wrapped: bool = True) -> bool:
    """Whether it can be called with so many arguments. True if nobody can know.

    Of a function that wraps another one, the other one is asked, if it is to be followed.
    """
    try:
        signature = inspect.signature(function, follow_wrapped=follow_wrapped)
    except Exception:  # some functions written in C have none, and annotations may name what isn't imported
        return True
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def require_callback(what: str, function: Any, *arguments: str) -> None:
    """Raises ConfigError if it isn't a function of these arguments, which are described for the message."""
    if not callable(function):
        raise ConfigError(f"{what} must be a function, not {function!r}")
    if is_generator(function):
        raise ConfigError(
            f"{what} must not be a generator, because its body would never run: return instead of yielding"
        )
    count = len(arguments)
    # A decorator may give the function that it wraps more arguments, or the function may say more than the decorator.
    if not takes(function, count) and not takes(function, count, follow_wrapped=False):
        wanted = " and ".join(arguments) if arguments else "no arguments"
        raise ConfigError(
            f"{what} must take {wanted}: {function!r} has the arguments {inspect.signature(function)}"
        )


def require_plain(what: str, function: Any, *arguments: str) -> None:
    """The same; and raises ConfigError for async functions, whose results nobody would await."""
    require_callback(what, function, *arguments)
    if is_async(function):
        raise ConfigError(f"{what} must be a plain function, not an async one")
