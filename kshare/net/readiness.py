"""Calls somebody whenever a stream has something to read, in the very moment that the event loop sees it.

A task that waits is woken one turn of the loop later, and whoever it tells another turn after that. Where the loop
can call a function instead, as asyncio's can, it does; elsewhere a task waits. Decides nothing but that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context

import anyio
from anyio.lowlevel import checkpoint

from kshare.net.tcp import TcpStream

try:
    import sniffio
except ModuleNotFoundError:  # anyio does without it, too
    sniffio = None  # type: ignore[assignment]


async def call_when_readable(stream: TcpStream, on_ready: Callable[[], None]) -> None:
    """Until `on_ready` raises, or this is cancelled; nobody else may wait for the stream meanwhile."""
    loop = _running_loop()
    if loop is None:
        await _wait_and_call(stream, on_ready)
        return
    ended: asyncio.Future[None] = loop.create_future()
    context = _like_a_task()

    def call() -> None:
        if ended.done():
            return
        try:
            on_ready()
        except Exception as error:
            if not ended.done():
                ended.set_exception(error)
            return
        if stream.holds_back:
            loop.call_soon(call, context=context)

    descriptor = stream.socket.fileno()
    try:
        context.run(loop.add_reader, descriptor, call)
    except NotImplementedError:  # asyncio's word for a loop that can't, as Windows' own
        await _wait_and_call(stream, on_ready)
        return
    try:
        loop.call_soon(call, context=context)  # something may have come before anybody listened
        await ended
    finally:
        loop.remove_reader(descriptor)
        if ended.done() and not ended.cancelled():
            ended.exception()  # whoever is cancelled in this very moment doesn't take it along


async def _wait_and_call(stream: TcpStream, on_ready: Callable[[], None]) -> None:
    while True:
        on_ready()
        if stream.holds_back:
            await checkpoint()
        else:
            await anyio.wait_readable(stream.socket)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """None on trio, be it a guest in an asyncio loop: its tasks aren't to be told from outside."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    return loop if asyncio.current_task() is not None else None


def _like_a_task() -> Context:
    """What is called from the loop may call anyio as tasks do."""
    context = copy_context()
    if sniffio is not None:
        context.run(sniffio.current_async_library_cvar.set, "asyncio")
    return context
