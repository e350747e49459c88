"""A simulated network between programs and brokers: delays, limited buffers, cuts and refused connections.

Order is kept within a connection, and there is none between connections. All randomness comes from one generator.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from random import Random
from typing import Any

import anyio
from anyio.abc import Listener, SocketAttribute, SocketStream, TaskGroup
from anyio.lowlevel import checkpoint

from kshare.net.stream import Stream
from kshare.net.tcp import Network
from tests.simulation.bounds import Traffic
from tests.simulation.tap import Tap

Address = tuple[str, int]
_LOOK_S = 1.0
"""How late brokers may notice that a connection is idle."""


@dataclass
class Conditions:
    """Of all connections."""

    delay_s: tuple[float, float] = (0.0, 0.002)
    capacity: int = 1 << 20
    """How many bytes of one direction may be under way or unread."""
    idle_limit_s: float | None = None
    """Brokers close connections that have carried nothing for so long."""


class SimulatedNetwork:
    """All connections, and the listeners of brokers. `tasks` runs until the end of the simulation."""

    def __init__(
        self, random: Random, conditions: Conditions, tasks: TaskGroup, new_tap: Callable[[], Tap]
    ) -> None:
        self.random = random
        self.conditions = conditions
        self.tasks = tasks
        self._context = copy_context()
        self.new_tap = new_tap
        self._listeners: dict[Address, SimulatedListener] = {}
        self.links: list[Link] = []
        self._ports = 30_000
        self.refuses_until = 0.0
        """New connections are refused before."""
        self.traffic = Traffic()
        if conditions.idle_limit_s is not None:
            tasks.start_soon(self._close_idle, conditions.idle_limit_s)

    async def _close_idle(self, limit_s: float) -> None:
        while True:
            oldest = min((link.used_at for link in self.links), default=anyio.current_time())
            await anyio.sleep(max(_LOOK_S, oldest + limit_s - anyio.current_time()))
            for link in [link for link in self.links if link.used_at + limit_s <= anyio.current_time()]:
                link.close_idle()

    async def listen(self, host: str, port: int) -> SimulatedListener:
        if port == 0:
            self._ports += 1
            port = self._ports
        listener = self._listeners[host, port] = SimulatedListener(self, (host, port))
        return listener

    def forget(self, address: Address, listener: SimulatedListener) -> None:
        """Unless another one listens there by now."""
        if self._listeners.get(address) is listener:
            del self._listeners[address]

    async def connect(self, address: Address, owner: str) -> ClientStream:
        self.traffic.note(owner, anyio.current_time(), "connect")
        await anyio.sleep(self.delay())
        listener = self._listeners.get(address)
        if listener is None or anyio.current_time() < self.refuses_until:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        link = Link(self, owner, self.new_tap())
        self.links.append(link)
        listener.accept(link)
        return ClientStream(link)

    def carry(self, pipe: Pipe) -> None:
        """In a task that belongs to no process: what was sent arrives, whatever becomes of its sender."""
        self._context.copy().run(self.tasks.start_soon, pipe.carry)

    def delay(self) -> float:
        return self.random.uniform(*self.conditions.delay_s)


class ProcessNetwork(Network):
    """The network as one process sees it. When the process is killed, all its connections are gone at once."""

    def __init__(self, network: SimulatedNetwork, owner: str) -> None:
        self._network = network
        self._owner = owner
        self.is_dead = False

    async def connect(self, host: str, port: int) -> Stream:
        if self.is_dead:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        return await self._network.connect((host, port), self._owner)

    def kill(self) -> None:
        self.is_dead = True
        for link in [link for link in self._network.links if link.owner == self._owner]:
            link.cut(is_client_gone=True)


class SimulatedListener(Listener[SocketStream]):
    def __init__(self, network: SimulatedNetwork, address: Address) -> None:
        self._network = network
        self._address = address
        self._links: deque[Link] = deque()
        self._changed = anyio.Event()
        self._is_closed = False

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {SocketAttribute.local_port: lambda: self._address[1]}

    def accept(self, link: Link) -> None:
        self._links.append(link)
        self._changed.set()

    async def serve(
        self, handler: Callable[[SocketStream], Any], task_group: TaskGroup | None = None
    ) -> None:
        assert task_group is not None, "the cluster has one"
        while not self._is_closed:
            while self._links:
                task_group.start_soon(handler, ServerStream(self._links.popleft()))
            self._changed = anyio.Event()
            await self._changed.wait()
        raise anyio.ClosedResourceError

    async def aclose(self) -> None:
        self._is_closed = True
        self._network.forget(self._address, self)
        for link in self._links:
            link.cut()
        self._changed.set()
        await checkpoint()


class Change:
    """Wakes those who wait for it now. An event is made only if somebody waits."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: anyio.Event | None = None

    def notify(self) -> None:
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> None:
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()


@dataclass
class _Sent:
    """Bytes on their way."""

    arrives_at: float
    data: bytes
    is_end: bool = False
    lost: Callable[[], None] | None = None
    """Called if they don't arrive, or aren't read."""


@dataclass
class Pipe:
    """One direction."""

    link: Link
    under_way: deque[_Sent] = field(default_factory=deque)
    arrived: deque[_Sent] = field(default_factory=deque)
    size: int = 0
    """Bytes under way or unread."""
    is_broken: bool = False
    stalls_until: float = 0.0
    """Nothing arrives before."""
    changed: Change = field(default_factory=Change)
    """Something has arrived, or was taken, or it is broken."""
    due: Change = field(default_factory=Change)
    """Something else arrives next, or at another time."""

    @property
    def room(self) -> int:
        return max(0, self.link.network.conditions.capacity - self.size)

    @property
    def is_readable(self) -> bool:
        return bool(self.arrived) or self.is_broken

    def put(
        self,
        data: bytes,
        *,
        later_s: float = 0.0,
        is_end: bool = False,
        lost: Callable[[], None] | None = None,
    ) -> None:
        at = anyio.current_time() + self.link.network.delay() + later_s
        if self.under_way:
            at = max(at, self.under_way[-1].arrives_at)
        else:
            self.due.notify()
        self.under_way.append(_Sent(at, data, is_end, lost))
        self.size += len(data)
        self.link.used_at = anyio.current_time()

    async def carry(self) -> None:
        """Deliver what is under way, until the end."""
        while not self.is_broken:
            if not self.under_way:
                await self.due.wait()
                continue
            first = self.under_way[0]
            now = anyio.current_time()
            at = max(first.arrives_at, self.stalls_until)
            if now < at:
                with anyio.move_on_after(at - now):
                    await self.due.wait()
                continue
            self.arrived.append(self.under_way.popleft())
            self.changed.notify()
            if first.is_end:
                return

    def take(self, most: int) -> bytes | None:
        """Up to so many bytes that have arrived. None if there are none. Raises EndOfStream, and OSError."""
        while self.arrived:
            first = self.arrived[0]
            if first.is_end:
                raise anyio.EndOfStream
            taken, first.data = first.data[:most], first.data[most:]
            if not first.data:
                self.arrived.popleft()
            if taken:
                self.size -= len(taken)
                self.changed.notify()
                return taken
        if self.is_broken:
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        return None

    def break_off(self, *, keeps_arrived: bool) -> None:
        """What is under way is lost."""
        if self.is_broken:
            return
        self.is_broken = True
        lost = [*([] if keeps_arrived else self.arrived), *self.under_way]
        self.under_way.clear()
        if not keeps_arrived:
            self.arrived.clear()
        for sent in lost:
            if sent.lost is not None:
                sent.lost()
        self.changed.notify()
        self.due.notify()


class Link:
    """A connection: to the broker through `up`, and back through `down`."""

    def __init__(self, network: SimulatedNetwork, owner: str, tap: Tap) -> None:
        self.network = network
        self.owner = owner
        self.tap = tap
        tap.begin(owner, network.traffic)
        self.up, self.down = Pipe(self), Pipe(self)
        self.is_client_gone = False
        self.used_at = anyio.current_time()
        """When somebody last sent something."""
        network.carry(self.up)
        network.carry(self.down)

    @property
    def is_over(self) -> bool:
        return self.up.is_broken and self.down.is_broken

    @property
    def is_used(self) -> bool:
        """Whether the client hasn't closed it, and the network hasn't cut it."""
        return not self.is_client_gone and not self.up.is_broken

    def stall(self, seconds: float, *, up: bool, down: bool) -> None:
        """Nothing arrives for a while. Both sides may send."""
        until = anyio.current_time() + seconds
        for pipe, stalls in ((self.up, up), (self.down, down)):
            if stalls:
                pipe.stalls_until = until
                pipe.due.notify()

    def close_idle(self) -> None:
        """The broker closes it: its next read fails, and so it ends the connection in good order."""
        self.up.break_off(keeps_arrived=False)
        self.network.links.remove(self)

    def cut(self, *, is_client_gone: bool = False) -> None:
        """Both sides get an error. Some of what is under way to the broker may still arrive."""
        self.is_client_gone = self.is_client_gone or is_client_gone
        self._let_some_arrive()
        self.up.break_off(keeps_arrived=True)
        self.down.break_off(keeps_arrived=not is_client_gone)
        self.tap.end()
        if self in self.network.links:
            self.network.links.remove(self)

    def _let_some_arrive(self) -> None:
        """Up to any byte."""
        random, up = self.network.random, self.up
        while up.under_way and random.random() < 0.5:
            first = up.under_way.popleft()
            if random.random() < 0.3:
                first.data = first.data[: random.randrange(len(first.data) + 1)]
                up.arrived.append(first)
                break
            up.arrived.append(first)


class ClientStream(Stream):
    def __init__(self, link: Link) -> None:
        self.link = link
        self._is_closed = False

    def receive_now(self, buffer: memoryview) -> int | None:
        if self._is_closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        data = self.link.down.take(len(buffer))
        if data is None:
            return None
        buffer[: len(data)] = data
        return len(data)

    def set_read_threshold(self, count: int) -> None:
        """It is readable whenever something has arrived."""

    def send_now(self, item: bytes | memoryview) -> memoryview:
        up, rest = self.link.up, memoryview(item)
        if self._is_closed or up.is_broken:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        count = min(len(rest), up.room)
        if count:
            up.put(bytes(rest[:count]))
        return rest[count:]

    async def send(self, item: bytes | memoryview) -> None:
        rest = self.send_now(item)
        while rest:
            await self.link.up.changed.wait()
            rest = self.send_now(rest)
        await checkpoint()

    async def call_when_readable(self, on_ready: Callable[[], None]) -> None:
        down = self.link.down
        while True:
            on_ready()
            if down.is_readable:
                await checkpoint()
            else:
                await down.changed.wait()

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            link = self.link
            link.is_client_gone = True
            link.down.break_off(keeps_arrived=False)
            if not link.up.is_broken:
                link.up.put(b"", is_end=True)
        await checkpoint()


class ServerStream(SocketStream):
    def __init__(self, link: Link) -> None:
        self._link = link
        self._is_closed = False

    @property
    def _raw_socket(self) -> socket.socket:
        raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {SocketAttribute.remote_address: lambda: (self._link.owner, 1)}

    async def receive(self, max_bytes: int = 65536) -> bytes:
        up = self._link.up
        while True:
            if self._is_closed:
                raise anyio.ClosedResourceError
            try:
                data = up.take(max_bytes)
            except OSError as error:
                raise anyio.BrokenResourceError from error
            if data is not None:
                self._link.tap.on_request_bytes(data)
                await checkpoint()
                return data
            await up.changed.wait()

    async def send(self, item: bytes) -> None:
        await checkpoint()
        link, down = self._link, self._link.down
        if self._is_closed:
            raise anyio.ClosedResourceError
        for part in link.tap.responses_in(bytes(item), is_gone=link.is_client_gone or down.is_broken):
            while not down.room and not down.is_broken:
                await down.changed.wait()
            if down.is_broken:
                part.lost()
                continue
            down.put(part.data, later_s=part.later_s, lost=part.lost)
            if part.is_cut_after:
                self._link.network.tasks.start_soon(self._cut_when_arrived)
                down.put(b"", is_end=True)
        if down.is_broken:
            raise anyio.BrokenResourceError

    async def _cut_when_arrived(self) -> None:
        while self._link.down.under_way:
            await self._link.down.changed.wait()
        self._link.cut()

    async def send_eof(self) -> None:
        self._link.down.put(b"", is_end=True)

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._link.up.break_off(keeps_arrived=False)
            if not self._link.down.is_broken:
                self._link.down.put(b"", is_end=True)
            self._link.tap.end()
        await checkpoint()
