"""TCP proxies in front of the nodes of a cluster, which lose responses. Independent of Kafka."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from random import Random

import anyio
from anyio.abc import Listener, SocketAttribute, SocketStream, TaskStatus

from kshare.net.pool import Pool

Address = tuple[str, int]

_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)


class LossyProxies:
    """One for each address. `lead` makes clients of this process use them."""

    def __init__(self, targets: Sequence[Address], random: Random) -> None:
        self.share = 0.0
        """How many of the responses are lost, and their connection with them."""
        self.is_shut = False
        """Nobody can connect."""
        self.lost = 0
        self._random = random
        self._targets = targets
        self._ports: dict[Address, int] = {}
        self._shuts_after_response = False
        self._open: set[SocketStream] = set()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def shut_after_response(self) -> None:
        """Forward one more response, and then nothing."""
        self._shuts_after_response = True

    def lead(self, set_attribute: Callable[[object, str, object], None]) -> None:
        """Give `monkeypatch.setattr`."""
        learn = Pool.learn

        def learn_proxies(pool: Pool, nodes: Mapping[int, tuple[str, int, str | None]]) -> None:
            learn(
                pool,
                {node: ("127.0.0.1", self._port(host, at), rack) for node, (host, at, rack) in nodes.items()},
            )

        set_attribute(Pool, "learn", learn_proxies)

    def _port(self, host: str, port: int) -> int:
        return self._ports.get((host, port), port)

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Run until cancelled."""
        async with anyio.create_task_group() as tasks:
            for target in self._targets:
                listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
                self._ports[target] = listener.extra(SocketAttribute.local_port)
                tasks.start_soon(self._listen, listener, target)
            task_status.started()

    async def _listen(self, listener: Listener[SocketStream], target: Address) -> None:
        async with listener:
            await listener.serve(self._serve(target))

    def _serve(self, target: Address) -> Callable[[SocketStream], Awaitable[None]]:
        async def serve(client: SocketStream) -> None:
            async with client:
                if self.is_shut:
                    return
                try:
                    server = await anyio.connect_tcp(*target)
                except OSError:
                    return
                async with server:
                    self._open.add(client)
                    await self._forward(client, server)
                    self._open.discard(client)

        return serve

    async def _forward(self, client: SocketStream, server: SocketStream) -> None:
        async with anyio.create_task_group() as tasks:

            async def up() -> None:
                async for chunk in client:
                    await server.send(chunk)

            async def down() -> None:
                async for chunk in server:
                    if self.is_shut or self._random.random() < self.share:
                        self.lost += 1
                        return
                    await client.send(chunk)
                    if self._shuts_after_response:
                        self._shuts_after_response, self.is_shut = False, True
                        for stream in self._open:
                            await stream.aclose()

            async def until_the_end(forward: Callable[[], Awaitable[None]]) -> None:
                with suppress(*_GONE):
                    await forward()
                tasks.cancel_scope.cancel()

            tasks.start_soon(until_the_end, up)
            tasks.start_soon(until_the_end, down)
