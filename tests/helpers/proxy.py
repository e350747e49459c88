"""A TCP proxy that breaks connections in the middle of a response. Independent of Kafka."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
from anyio.abc import SocketStream, TaskStatus

_NOTHING = 0


class CuttingProxy:
    """Forwards from `port` to `target`. `cut_next` breaks a connection."""

    def __init__(self, port: int, target: tuple[str, int], marked: bytes) -> None:
        """Cuts only connections on which the client has sent `marked`, in one chunk."""
        self.port = port
        self.cuts = 0
        self._target = target
        self._marked = marked
        self._at_least = _NOTHING

    def cut_next(self, at_least: int) -> None:
        """Forward only half of the next chunk of at least this size from the broker, then close both connections."""
        self._at_least = at_least

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Run until cancelled."""
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=self.port)
        task_status.started()
        async with listener:
            await listener.serve(self._serve)

    async def _serve(self, client: SocketStream) -> None:
        async with client:
            try:
                server = await anyio.connect_tcp(*self._target)
            except OSError:
                return  # the broker is down, so close the client's connection too
            async with server:
                await self._forward_both_ways(client, server)

    async def _forward_both_ways(self, client: SocketStream, server: SocketStream) -> None:
        is_marked = anyio.Event()
        async with anyio.create_task_group() as tasks:

            async def up() -> None:
                async for chunk in client:
                    if self._marked in chunk:
                        is_marked.set()
                    await server.send(chunk)

            async def down() -> None:
                async for chunk in server:
                    if is_marked.is_set() and 0 < self._at_least <= len(chunk):
                        self._at_least = _NOTHING
                        self.cuts += 1
                        await client.send(chunk[: len(chunk) // 2])
                        return
                    await client.send(chunk)

            async def until_the_end(forward: Callable[[], Awaitable[None]]) -> None:
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await forward()
                tasks.cancel_scope.cancel()

            tasks.start_soon(until_the_end, up)
            tasks.start_soon(until_the_end, down)
