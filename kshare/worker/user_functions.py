"""Users' functions: whether they are async, and which of their exceptions are failures. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio

from kshare.errors import ConfigError
from kshare.log_text import escaped

_MAX_MESSAGE = 200


class HandlerExit(Exception):
    """A handler raised SystemExit, or another exception that isn't meant for a single record."""


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


def require_plain(what: str, function: Callable[..., Any]) -> None:
    """Raises ConfigError for async functions, whose results nobody would await."""
    if is_async(function):
        raise ConfigError(f"{what} must be a plain function, not an async one")
