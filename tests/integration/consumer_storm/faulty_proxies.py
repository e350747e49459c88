"""TCP proxies in front of brokers: damage, lose and delay responses, and note what is acquired and acknowledged.

What they note is what brokers do, whatever clients believe: responses are read even if their client is gone. Brokers'
addresses in responses are replaced, so clients need no change. They run in a thread of their own.
"""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kshare.protocol.envelopes import decode_request, decode_response, encode_response
from kshare.protocol.messages import (
    FindCoordinatorResponse,
    MetadataResponse,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from tests.integration.consumer_storm.fault_book import (
    UNKNOWABLE,
    Acknowledged,
    Acquired,
    FaultBook,
    mark_lost,
)

Address = tuple[str, int]
_READ: dict[int, Any] = {
    kind.API_KEY: kind
    for kind in (MetadataResponse, FindCoordinatorResponse, ShareFetchResponse, ShareAcknowledgeResponse)
}
_PATIENCE_S = 3.0
"""For how long responses are read after the client is gone: longer than a fetch waits."""


@dataclass
class _Asked:
    key: int
    version: int
    at: float
    request: Any = None


@dataclass
class FaultyProxies(FaultBook):
    targets: Sequence[Address] = ()
    problems: list[str] = field(default_factory=list)
    _ports: dict[Address, int] = field(default_factory=dict)
    _open: dict[asyncio.StreamWriter, asyncio.StreamWriter] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    # --- their thread

    def start(self) -> None:
        started = threading.Event()
        self._loop = asyncio.new_event_loop()

        async def run() -> None:
            self._stopping = asyncio.Event()
            servers = []
            for target in self.targets:
                server = await asyncio.start_server(self._serving(target), "127.0.0.1", 0, limit=1 << 24)
                self._ports[target] = server.sockets[0].getsockname()[1]
                servers.append(server)
            started.set()
            await self._stopping.wait()
            for server in servers:
                server.close()
            for client in [*self._open]:
                client.close()
            rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            await asyncio.wait(rest, timeout=_PATIENCE_S) if rest else None
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)

        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(run()), daemon=True)
        self._thread.start()
        assert started.wait(10)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(20)
        assert not self._thread.is_alive()
        self._loop.close()

    def drop_one(self) -> None:
        """Close the connection of a client, whatever it is doing."""
        self._loop.call_soon_threadsafe(self._drop_one)

    def _drop_one(self) -> None:
        if self._open:
            self.done["drop"] += 1
            self._open[self.random.choice([*self._open])].close()

    # --- connections

    def _serving(self, target: Address) -> Callable[..., Any]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                upstream, to_broker = await asyncio.open_connection(*target, limit=1 << 24)
            except OSError:
                writer.close()
                return
            self._open[writer] = writer
            connection = _Connection(self, writer, to_broker)
            down = asyncio.create_task(connection.down(upstream))
            try:
                with suppress(OSError, asyncio.IncompleteReadError):
                    await connection.up(reader)
                connection.is_gone = True
                with suppress(asyncio.TimeoutError):
                    async with asyncio.timeout(_PATIENCE_S):
                        while connection.asked and not down.done():
                            await asyncio.sleep(0.01)
            finally:
                self._open.pop(writer, None)
                to_broker.close()
                writer.close()
                for rest in connection.asked.values():
                    if rest.request is not None:
                        self.note_acks(rest.request, rest.at, None)
                with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                    await down

        return serve

    # --- responses

    def lead(self, response: Any, key: int) -> Any:
        """Replace the brokers' addresses."""
        if key == MetadataResponse.API_KEY:
            places = response.brokers
        elif key == FindCoordinatorResponse.API_KEY:
            places = response.coordinators or [response]
        else:
            places = response.node_endpoints
        for place in places:
            if place.port > 0:
                place.port = next(
                    (port for (_, at), port in self._ports.items() if at == place.port), place.port
                )
                place.host = "127.0.0.1"
        return response


class _Connection:
    def __init__(
        self, proxies: FaultyProxies, to_client: asyncio.StreamWriter, to_broker: asyncio.StreamWriter
    ) -> None:
        self.asked: dict[int, _Asked] = {}
        self.is_gone = False
        self._proxies = proxies
        self._to_client = to_client
        self._to_broker = to_broker

    async def up(self, client: asyncio.StreamReader) -> None:
        while True:
            head = await client.readexactly(4)
            frame = await client.readexactly(int.from_bytes(head, "big"))
            key, version, number = struct.unpack_from(">hhi", frame)
            asked = self.asked[number] = _Asked(key, version, time.monotonic())
            if key in (ShareFetchRequest.API_KEY, ShareAcknowledgeRequest.API_KEY):
                asked.request = decode_request(frame)[1]
            self._to_broker.write(head + frame)
            await self._to_broker.drain()

    async def down(self, broker: asyncio.StreamReader) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                head = await broker.readexactly(4)
                frame = await broker.readexactly(int.from_bytes(head, "big"))
                number = int.from_bytes(frame[:4], "big")
                asked = self.asked[number]
                try:
                    await self._response(asked, number, head + frame)
                finally:
                    self.asked.pop(number, None)
        self._to_client.close()

    async def _response(self, asked: _Asked, number: int, frame: bytes) -> None:
        fault: str | None = None
        acquired: list[Acquired] = []
        settled: list[Acknowledged] = []
        proxies = self._proxies
        if asked.key in _READ and not (asked.key == MetadataResponse.API_KEY and asked.version < 1):
            response = decode_response(_READ[asked.key], asked.version, frame[4:])[1]
            proxies.lead(response, asked.key)
            if asked.request is not None:
                settled = proxies.note_acks(asked.request, asked.at, response)
                fault = "gone" if self.is_gone else proxies.choose(response)
                acquired = proxies.note_acquired(asked.request, asked.at, response, fault)
                if fault in UNKNOWABLE:
                    mark_lost(acquired, settled)
                if fault == "corrupt batch":
                    proxies.spoil(response)
            frame = bytes(encode_response(response, asked.version, number))
        if self.is_gone:
            return
        if fault is not None:
            proxies.done[fault] += 1
        if fault == "late response":
            await asyncio.sleep(proxies.late_s())
            if self.is_gone:
                # The client closed the connection, or lost it, before the response was sent to it.
                mark_lost(acquired, settled)
                return
        elif fault == "undecodable response":
            half = frame[4 : len(frame) // 2]
            frame = len(half).to_bytes(4, "big") + half
        elif fault == "cut response":
            self._to_client.write(frame[: len(frame) // 2])
        if fault in ("cut response", "lost response"):
            self.is_gone = True
            self._to_client.close()
            return
        self._to_client.write(frame)
        with suppress(OSError):
            await self._to_client.drain()
