"""Users' functions: whether they are async, how plain ones are called, and which exceptions are failures."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import partial
from typing import Any

import anyio

from kshare.callbacks import is_async
from kshare.errors import KshareError
from kshare.log_text import escaped
from kshare.worker.functions.interrupts import may_be_interrupted

_MAX_MESSAGE = 200


class HandlerExit(Exception):
    """A handler raised SystemExit, or another exception that isn't meant for a single record."""


def as_failure(error: BaseException) -> HandlerExit:
    failure = HandlerExit(f"the handler raised {exception_name(error)}")
    failure.__cause__ = error
    return failure


def is_failure(error: BaseException) -> bool:
    """Whether it is the failure of a function, and not a cancellation, Ctrl-C, or the end of the event loop."""
    if isinstance(error, Exception):
        return True
    if isinstance(error, KeyboardInterrupt):
        return not may_be_interrupted()
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is None or not may_be_interrupted()
    if isinstance(error, GeneratorExit):
        return _is_in_task()
    return not isinstance(error, anyio.get_cancelled_exc_class())


def _is_in_task() -> bool:
    """Whether the event loop runs this. Otherwise a coroutine that was left over is being thrown away."""
    try:
        anyio.get_current_task()
    except Exception:
        return False
    return True


def message_of(error: BaseException) -> str:
    """What an exception says, on one line and shortened, for logs."""
    try:
        return shortened(str(error))
    except BaseException as problem:
        if not is_failure(problem):
            raise
        return ""


def exception_name(error: BaseException) -> str:
    """The class of an exception, which may have any name, as `message_of` is what it says."""
    return shortened(type(error).__qualname__)


def shortened(message: str) -> str:
    """A user's message on one line, not too long, and without control characters, for logs."""
    text = " ".join(message.split())
    return escaped(text) if len(text) <= _MAX_MESSAGE else f"{escaped(text[:_MAX_MESSAGE])}…"


def is_plain_function(function: Callable[..., Any]) -> bool:
    """Whether it is a function with `def`, or a method, and not async.

    Other callables may return what can be awaited: objects, lambdas, and functions that wrap async ones.
    """
    while isinstance(function, partial):
        function = function.func
    target = inspect.unwrap(function)
    is_function = inspect.isfunction(target) or inspect.ismethod(target)
    return is_function and target.__name__ != "<lambda>" and not (is_async(function) or is_async(target))


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


def require_ended(function: Callable[..., Any], result: Any, what: str = "handler") -> None:
    """Raises KshareError if the function has only begun: then it must not be taken for done."""
    if result is None or isinstance(result, bool | int | str | bytes):
        return
    hint = _hint(function, result)
    if hint is None:
        return
    if isinstance(result, Coroutine):
        result.close()
    name = getattr(function, "__qualname__", repr(function))
    raise KshareError(f"{what} {name} returned {_described(result)} that nobody {hint}")


def _hint(function: Callable[..., Any], result: Any) -> str | None:
    """What nobody does with a result that is work still to be done, and what to do about it; None for other results."""
    if isinstance(result, Generator) and not inspect.isawaitable(result):
        return "iterates over: do that in the function, or return instead of yielding"
    if isinstance(result, AsyncGenerator):
        return "iterates over: do that in the function"
    if isinstance(result, map | filter):
        return "iterates over, so nothing was called: use a loop"
    if inspect.isawaitable(result):
        hint = "await it" if is_async(function) else "declare the function with `async def`, and await it"
        return f"awaits: {hint}"
    if callable(getattr(type(result), "add_done_callback", None)):
        return "waits for: wait for its result in the function"
    return None


def _described(result: Any) -> str:
    kind = type(result).__name__
    kind = {"async_generator": "async generator"}.get(kind, kind)
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"
