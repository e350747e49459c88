"""The decorator `idempotent`: runs a function once for each key, and returns the stored result afterwards."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from typing import Any, TypeVar, cast

from kshare.errors import ConfigError
from kshare.idempotency.calls import inside_call
from kshare.idempotency.guard import Deserialize, Guard, Identify, Serialize, result_as_json
from kshare.idempotency.store import ClaimState, IdempotencyStore
from kshare.idempotency.threads import from_plain_function

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def idempotent(
    store: IdempotencyStore,
    *,
    key: Identify | None = None,
    name: str | None = None,
    in_progress_timeout: float = 60.0,
    keep: float = 86_400.0,
    wait: float = 0.0,
    serialize: Serialize = result_as_json,
    deserialize: Deserialize = json.loads,
) -> Callable[[FunctionT], FunctionT]:
    """Make an async or plain function return its stored result when it is called again with the same key.

    `key` is a function of the arguments; by default, the topic, partition and offset of a record among them. Keys are
    the function's own: it is recognized by its module and name, or by `name`.

    A call first claims its key for `in_progress_timeout` seconds, which must be longer than the function ever takes.
    Its result is kept for `keep` seconds. If the function raises, is cancelled, or releases or rejects its delivery in
    a worker, nothing is stored. If another call with the key is in progress, the call waits up to `wait` seconds for
    it, and then raises InProgress.
    """

    def decorate(function: FunctionT) -> FunctionT:
        called = name or f"{function.__module__}.{function.__qualname__}"
        _check(function, called, key)
        guard = Guard(
            store,
            called,
            key=key,
            in_progress_timeout=in_progress_timeout,
            keep=keep,
            wait=wait,
            serialize=serialize,
            deserialize=deserialize,
        )
        wrap = _around_async if inspect.iscoroutinefunction(function) else _around_plain
        return cast("FunctionT", wrap(function, guard))

    return decorate


def _check(function: Callable[..., Any], called: str, key: Identify | None) -> None:
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise ConfigError(
            f"{called}: a generator has no result that could be stored. Decorate a function that returns."
        )
    if key is None and not inspect.signature(function).parameters:
        raise ConfigError(
            f"{called} has no parameters, so nothing tells its calls apart. Pass key=, or take a record."
        )


def _around_async(function: Callable[..., Any], guard: Guard) -> Callable[..., Any]:
    @functools.wraps(function)
    async def once(*arguments: Any, **named: Any) -> Any:
        ticket = guard.ticket(arguments, named)
        response = await guard.claim(ticket)
        if response.state is ClaimState.DONE:
            return guard.stored_result(response)
        try:
            with inside_call(guard.function) as call:
                result = await function(*arguments, **named)
            if call.has_result:
                await guard.finish(ticket, result)
            else:
                await guard.give_up(ticket)
        except GeneratorExit:  # the coroutine is thrown away, so nothing can be awaited; the claim expires
            raise
        except BaseException as error:
            await guard.abandon(ticket, error)
            raise
        return result

    return once


def _around_plain(function: Callable[..., Any], guard: Guard) -> Callable[..., Any]:
    @functools.wraps(function)
    def once(*arguments: Any, **named: Any) -> Any:
        ticket = guard.ticket(arguments, named)
        response = from_plain_function(guard.claim, ticket)
        if response.state is ClaimState.DONE:
            return guard.stored_result(response)
        try:
            with inside_call(guard.function) as call:
                result = function(*arguments, **named)
            if call.has_result:
                from_plain_function(guard.finish, ticket, result)
            else:
                from_plain_function(guard.give_up, ticket)
        except BaseException as error:
            from_plain_function(guard.abandon, ticket, error)
            raise
        return result

    return once
