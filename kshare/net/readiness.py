"""Calls a function as soon as the event loop sees that a stream is readable.

A waiting task would be woken one iteration of the loop later, and a task that it wakes another iteration after that. So
if the loop can call a function directly, as asyncio's can, it does; otherwise a task waits.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Protocol

import anyio
from anyio.lowlevel import checkpoint

from kshare.net.running_loop import running_asyncio_loop

try:
    import sniffio
except ModuleNotFoundError:  # anyio no longer needs it
    sniffio = None  # type: ignore[assignment]


class _Readable(Protocol):
    @property
    def socket(self) -> socket.socket: ...

    @property
    def has_buffered_bytes(self) -> bool: ...


async def call_when_readable(stream: _Readable, on_ready: Callable[[], None]) -> None:
    """Runs until `on_ready` raises or this is cancelled. Nothing else may wait for the stream in that time."""
    loop = running_asyncio_loop()  # a task of trio must not be woken from outside
    if loop is None:
        await _wait_and_call(stream, on_ready)
        return
    ended: asyncio.Future[None] = loop.create_future()
    context = _task_context()

    def call() -> None:
        if ended.done():
            return
        try:
            on_ready()
        except Exception as error:
            if not ended.done():
                ended.set_exception(error)
            return
        if stream.has_buffered_bytes:
            loop.call_soon(call, context=context)

    descriptor = stream.socket.fileno()
    try:
        context.run(loop.add_reader, descriptor, call)
    except NotImplementedError:  # some loops can't do it, such as Windows' proactor loop
        await _wait_and_call(stream, on_ready)
        return
    try:
        loop.call_soon(call, context=context)  # something may have arrived before the reader was added
        await ended
    finally:
        loop.remove_reader(descriptor)
        if ended.done() and not ended.cancelled():
            ended.exception()  # marks it as retrieved, which a task that is cancelled now doesn't


async def _wait_and_call(stream: _Readable, on_ready: Callable[[], None]) -> None:
    while True:
        on_ready()
        if stream.has_buffered_bytes:
            await checkpoint()
        else:
            await anyio.wait_readable(stream.socket)


def _task_context() -> Context:
    """A context in which callbacks of the loop may use anyio like tasks."""
    context = copy_context()
    if sniffio is not None:
        context.run(sniffio.current_async_library_cvar.set, "asyncio")
    return context
