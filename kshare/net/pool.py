"""Connections to the nodes of a cluster: opened when first needed, shared, reopened after a pause when they break.

Decides which connection carries a request, and when to try connecting again. Never repeats a request: it may have been
carried out, and only the caller knows what that means.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Self, TypeVar

import anyio
from anyio.abc import TaskGroup

from kshare.errors import ConnectionLost, KshareError, RequestTimedOut
from kshare.net.addresses import Address, format_address
from kshare.net.backoff import Backoff, Outage
from kshare.net.connection import Connection, NetMeter
from kshare.net.handshake import Dialer
from kshare.net.settings import NetSettings
from kshare.protocol.message import Message, Request
from kshare.protocol.messages import MetadataRequest
from kshare.surroundings import new_random
from kshare.wording import not_connected

log = logging.getLogger("kshare.net")

ResponseT = TypeVar("ResponseT", bound=Message)

_CLOSED = "the connections to this cluster were closed on this side"


class Pool:
    """A context manager; at its end every connection is closed and every task has ended, whatever the brokers do."""

    def __init__(
        self, settings: NetSettings, random: Random | None = None, meter: NetMeter | None = None
    ) -> None:
        self.settings = settings
        self._random = random or new_random()
        self._meter = meter
        self._dialer = Dialer(settings, self._random, meter)
        self._nodes: dict[int, Address] = {}
        self._endpoints: dict[Address, _Endpoint] = {}
        self._searching = anyio.Lock()
        self._tasks: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._tasks = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        tasks, self._tasks = self._tasks, None
        assert tasks is not None, "entered before"
        for endpoint in self._endpoints.values():
            endpoint.close()
        tasks.cancel_scope.cancel()
        # Without the error, which would come out in a group. A cancellation isn't the task group's either: it is
        # cancelled here only to end its tasks, and would swallow one that is meant for the caller.
        await tasks.__aexit__(None, None, None)

    def learn(self, nodes: Mapping[int, tuple[str, int, str | None]]) -> None:
        """Adds node addresses (host, port, rack). Other nodes stay known: not every response lists all."""
        self._nodes.update((number, (host, port)) for number, (host, port, _) in nodes.items())

    def rebootstrap(self) -> None:
        """Forgets all node addresses and starts again from the bootstrap servers."""
        self._nodes.clear()
        for endpoint in self._endpoints.values():
            endpoint.hang_up("the cluster's addresses have changed")

    async def bootstrap(self, *, timeout: float | None = None) -> Connection:
        """Connects to a broker and sends a request that needs no permission, or raises an error, within `timeout`.

        A broker that requires a login closes the connection at the first request of a client without one. Later that
        would look like a broker that is down, and be retried forever.
        """
        limit = self.settings.request_timeout if timeout is None else timeout
        deadline = anyio.current_time() + limit
        other_count = len(self.settings.bootstrap) - 1
        problems: list[str] = []
        # A connection may break once for any reason; if a broker doesn't respond, another one is tried.
        for tries_left in range(max(2, other_count + 1), 0, -1):
            connection = await self.connection(None, timeout=deadline - anyio.current_time())
            share = (deadline - anyio.current_time()) / min(tries_left, other_count + 1)
            try:
                await connection.ask(MetadataRequest([]), timeout=share)
            except (ConnectionLost, RequestTimedOut) as error:
                problems.append(str(error))
                if tries_left == 1 or (isinstance(error, RequestTimedOut) and not other_count):
                    raise type(error)("; ".join(dict.fromkeys(problems))) from None
            else:
                return connection
        raise AssertionError("the last try returns or raises")

    async def ask(
        self,
        node: int | None,
        request: Request[ResponseT],
        *,
        timeout: float | None = None,
        purpose: str = "",
    ) -> ResponseT:
        """The response of this node, or of any; `timeout` includes connecting. Arguments as for `connection`."""
        limit = self.settings.request_timeout if timeout is None else timeout
        deadline = anyio.current_time() + limit
        connection = await self.connection(node, purpose=purpose, timeout=limit)
        return await connection.ask(request, timeout=deadline - anyio.current_time())

    async def connection(
        self, node: int | None, *, purpose: str = "", timeout: float | None = None
    ) -> Connection:
        """An open connection to this node, or to any that can be reached.

        Callers with the same purpose share a connection. A broker responds to the requests of one connection one after
        another, so what may wait long (a fetch) should have a purpose of its own. After a failure the next attempt
        waits for a pause to end, or fails at once if the timeout is sooner.
        """
        limit = self.settings.request_timeout if timeout is None else timeout
        deadline = anyio.current_time() + limit
        if node is None:
            return await self._any_broker(purpose, deadline)
        return await self._endpoint_of(self._address(node)).connect(purpose, deadline, self._owner())

    async def _any_broker(self, purpose: str, deadline: float) -> Connection:
        async with _in_turn(self._searching, deadline, "any broker"):
            for connection in self._open(purpose):
                return connection
            problems: list[str] = []
            candidates = self._candidates(purpose)
            for remaining, endpoint in zip(range(len(candidates), 0, -1), candidates, strict=True):
                now = anyio.current_time()
                try:
                    return await endpoint.connect(purpose, now + (deadline - now) / remaining, self._owner())
                except ConnectionLost as error:
                    problems.append(str(error))
            raise ConnectionLost("; ".join(problems))

    def _open(self, purpose: str) -> Iterator[Connection]:
        """Connections to responsive brokers, without those that failed recently or haven't responded in time."""
        for endpoint in self._endpoints.values():
            connection = endpoint.connections.get(purpose)
            if connection is not None and connection.is_open and not endpoint.is_suspect:
                yield connection

    def open_connection(self) -> Connection | None:
        """A connection to a responsive broker, if there is one already."""
        return next(self._open(""), None)

    def node_at(self, peer: str) -> int:
        """The node with this address. If it isn't known, a negative number, as for bootstrap servers in Java."""
        for number, address in self._nodes.items():
            if format_address(address) == peer:
                return number
        bootstrap = [format_address(address) for address in self.settings.bootstrap]
        return -1 - bootstrap.index(peer) if peer in bootstrap else -1 - len(bootstrap)

    @property
    def has_alternatives(self) -> bool:
        """Whether more than one broker can be asked. Bootstrap servers may be other names of known nodes."""
        return len(set(self._nodes.values()) or self.settings.bootstrap) > 1

    def _candidates(self, purpose: str) -> list[_Endpoint]:
        """Nodes and bootstrap servers in random order, with those last that failed recently or don't respond."""
        addresses = list(dict.fromkeys([*self._nodes.values(), *self.settings.bootstrap]))
        self._random.shuffle(addresses)

        def doubts(endpoint: _Endpoint) -> tuple[bool, float]:
            connection = endpoint.connections.get(purpose)
            return (connection is not None and connection.is_open, endpoint.backoff.until)

        return sorted((self._endpoint_of(address) for address in addresses), key=doubts)

    def _address(self, node: int) -> Address:
        address = self._nodes.get(node)
        if address is None:
            raise ConnectionLost(
                f"the address of node {node} isn't known: it may have left the cluster, refresh the metadata"
            )
        return address

    def _endpoint_of(self, address: Address) -> _Endpoint:
        if address not in self._endpoints:
            pause = Backoff(self.settings.backoff_min, self.settings.backoff_max, self._random)
            self._endpoints[address] = _Endpoint(
                address, self._dialer, pause, self.settings.backoff_max, self._meter
            )
        return self._endpoints[address]

    def _owner(self) -> TaskGroup:
        if self._tasks is None:
            raise ConnectionLost(_CLOSED)
        return self._tasks


class _Endpoint:
    """One address: its connections by purpose, and when it may be tried again."""

    def __init__(
        self,
        address: Address,
        dialer: Dialer,
        backoff: Backoff,
        settled_after: float,
        meter: NetMeter | None,
    ) -> None:
        self.peer = format_address(address)
        self._meter = meter
        self.connections: dict[str, Connection] = {}
        self.backoff = backoff
        self._address = address
        self._dialer = dialer
        self._stable_after = settled_after
        self._locks: dict[str, anyio.Lock] = {}
        self._problem: KshareError | None = None
        self._outage = Outage(self.peer)
        self._dialing: dict[anyio.CancelScope, None] = {}
        """In order: a set's would depend on addresses in memory."""
        self._is_closed = False

    @property
    def is_suspect(self) -> bool:
        """The last attempt to connect failed, or a request on one of its connections timed out."""
        return self._outage.is_on or any(connection.is_suspect for connection in self.connections.values())

    async def connect(self, purpose: str, deadline: float, tasks: TaskGroup) -> Connection:
        """Returns the open connection, or a new one; concurrent callers wait for the same."""
        async with _in_turn(self._locks.setdefault(purpose, anyio.Lock()), deadline, self.peer):
            connection = self.connections.get(purpose)
            if connection is not None and connection.is_open:
                return connection
            if self._is_closed:
                raise ConnectionLost(_CLOSED)
            with anyio.CancelScope() as dialing:
                self._dialing[dialing] = None
                try:
                    await self._pause(deadline)
                    return await self._dial(purpose, deadline, tasks)
                finally:
                    del self._dialing[dialing]
            raise ConnectionLost(_CLOSED)

    def hang_up(self, reason: str) -> None:
        for connection in self.connections.values():
            connection.end(ConnectionLost(reason), is_ours=True)

    def close(self) -> None:
        self._is_closed = True
        self.hang_up(_CLOSED)
        for dialing in self._dialing:
            dialing.cancel()

    async def _pause(self, deadline: float) -> None:
        if self.backoff.until >= deadline:
            raise ConnectionLost(f"{self._problem or self.peer}; the next attempt comes after the deadline")
        await anyio.sleep_until(self.backoff.until)

    async def _dial(self, purpose: str, deadline: float, tasks: TaskGroup) -> Connection:
        try:
            connection = await self._dialer.dial(self._address, tasks, deadline=deadline)
        except KshareError as error:
            self._failed(error)
            message = self._outage.on_failure(str(error), anyio.current_time())
            if message:
                log.warning(message)
            raise
        connected_at = anyio.current_time()
        message = self._outage.on_success(connected_at)
        if message:
            log.warning(message)
        self.connections[purpose] = connection
        if self._meter is not None:
            self._meter.on_connected(self.peer)
        connection.on_closed(lambda error: self._on_closed(connection, error, connected_at))
        return connection

    def _on_closed(self, connection: Connection, error: KshareError, connected_at: float) -> None:
        """A connection that breaks soon after it was made counts as a failed attempt."""
        if self._meter is not None:
            self._meter.on_disconnected(self.peer)
        if connection.is_closed_by_us:
            return
        if anyio.current_time() - connected_at > self._stable_after:
            self.backoff.on_success()
        self._failed(error)

    def _failed(self, error: KshareError) -> None:
        self._problem = error
        self.backoff.on_failure(anyio.current_time())


@asynccontextmanager
async def _in_turn(lock: anyio.Lock, deadline: float, target: str) -> AsyncIterator[None]:
    """Holds the lock; the current holder may take longer than our deadline."""
    limit = deadline - anyio.current_time()
    is_ours = False
    with anyio.move_on_after(limit):
        await lock.acquire()
        is_ours = True
    if not is_ours:
        raise ConnectionLost(f"can't reach {target}: {not_connected(limit)} (another attempt is under way)")
    try:
        yield
    finally:
        lock.release()
