"""Runs blocking databases in threads, and stores for functions that are themselves blocking.

Stores have their own limit of threads. With anyio's default limit, plain handlers could occupy all threads while each
of them waits for its store to get one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple, Unpack

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.lowlevel import RunVar

from kshare.errors import ConfigError

ResultT = TypeVar("ResultT")
ArgumentsT = TypeVarTuple("ArgumentsT")

STORE_THREADS = 8
_limiter: RunVar[anyio.CapacityLimiter] = RunVar("kshare.idempotency.limiter")


async def in_store_thread(call: Callable[[Unpack[ArgumentsT]], ResultT], *arguments: *ArgumentsT) -> ResultT:
    """Run a blocking call. A cancellation takes effect when the call has ended, so that its outcome is known."""
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(STORE_THREADS)
        _limiter.set(limiter)
    return await anyio.to_thread.run_sync(call, *arguments, limiter=limiter)


def from_plain_function(
    call: Callable[[Unpack[ArgumentsT]], Awaitable[ResultT]], *arguments: *ArgumentsT
) -> ResultT:
    """Run an async call from a thread: on the event loop that the thread works for, or else on a loop of its own."""
    has_started = False

    async def start() -> ResultT:
        nonlocal has_started
        has_started = True
        return await call(*arguments)

    try:
        return anyio.from_thread.run(start)
    except RuntimeError:
        if has_started:
            raise
    try:
        return anyio.run(start)
    except RuntimeError as error:
        if has_started:
            raise
        raise ConfigError(
            "A plain function with @idempotent was called in the thread of an event loop, which it would block. "
            "Call it with anyio.to_thread.run_sync, or make it an async function."
        ) from error
