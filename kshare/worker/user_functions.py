"""Users' functions: whether they are async, how plain ones are called, and which exceptions are failures."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio

from kshare.errors import ConfigError, KshareError
from kshare.log_text import escaped

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
    """A user's message on one line, not too long, and without control characters, for logs."""
    text = " ".join(message.split())
    return escaped(text) if len(text) <= _MAX_MESSAGE else f"{escaped(text[:_MAX_MESSAGE])}…"


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
    require_ended(function, result)


def require_ended(function: Callable[..., Any], result: Any) -> None:
    """Raises KshareError if the function has only begun: then it must not be taken for done."""
    if result is None or not (inspect.isawaitable(result) or inspect.isasyncgen(result)):
        return
    if inspect.iscoroutine(result):
        result.close()
    name = getattr(function, "__qualname__", repr(function))
    if inspect.isasyncgen(result):
        hint = "iterate over it in the handler"
        raise KshareError(f"handler {name} returned an async generator that nobody awaits: {hint}")
    hint = "await it" if is_async(function) else "declare the handler with `async def`, and await it"
    raise KshareError(f"handler {name} returned a {type(result).__name__} that nobody awaits: {hint}")


def require_plain(what: str, function: Callable[..., Any]) -> None:
    """Raises ConfigError for async functions, whose results nobody would await."""
    if is_async(function):
        raise ConfigError(f"{what} must be a plain function, not an async one")
