"""Users' functions: whether they are async, how plain ones are called, and which exceptions are failures."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio

from kshare.errors import ConfigError, KshareError

_MAX_MESSAGE = 200


class HandlerExit(Exception):
    """A handler raised SystemExit, or another exception that isn't meant for a single record."""


def as_failure(error: BaseException) -> HandlerExit:
    failure = HandlerExit(f"the handler raised {type(error).__qualname__}")
    failure.__cause__ = error
    return failure


def is_failure(error: BaseException) -> bool:
    """Whether it is the failure of a function, and not a cancellation, or Ctrl-C."""
    return not isinstance(error, KeyboardInterrupt | GeneratorExit | anyio.get_cancelled_exc_class())


def message_of(error: BaseException) -> str:
    """What an exception says, on one line and shortened, for logs."""
    try:
        return shortened(str(error))
    except Exception:
        return ""


def shortened(message: str) -> str:
    """A user's message on one line, and not too long, for logs."""
    text = " ".join(message.split())
    return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}…"


def is_async(function: Callable[..., Any]) -> bool:
    target = function.func if isinstance(function, partial) else function
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(
        getattr(target, "__call__", None)  # noqa: B004  the method of an object
    )


def call_plain(function: Callable[..., Any], *arguments: Any) -> None:
    """Call a plain handler, in another thread or process. Whatever it raises is its failure: Ctrl-C, cancellations and
    the end of the program aren't announced there.

    Raises KshareError if the function has only begun: then it must not be taken for done.
    """
    try:
        result = function(*arguments)
    except Exception:
        raise
    except BaseException as error:
        raise as_failure(error) from error
    if inspect.iscoroutine(result):
        result.close()
        raise KshareError(
            f"handler {function.__qualname__} returned a coroutine that nobody awaits: declare it with `async def`"
        )


def require_plain(what: str, function: Callable[..., Any]) -> None:
    """Raises ConfigError for async functions, whose results nobody would await."""
    if is_async(function):
        raise ConfigError(f"{what} must be a plain function, not an async one")
