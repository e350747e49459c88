"""A client connection as handlers see it, and a call: one request on it.

Decides what ends with a connection: whoever keeps something for it has itself told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kshare.broker.authorizer import AclResource, Operation
from kshare.broker.cluster import Node
from kshare.broker.request_error import RequestError
from kshare.broker.signals import Signal, wait_for_any

if TYPE_CHECKING:
    from kshare.broker.broker import Broker

ANONYMOUS = "User:ANONYMOUS"


class CloseConnection(Exception):
    """A handler's way to end the connection without an answer."""


class ClientConnection:
    """What the broker knows about one connection."""

    def __init__(self, number: int, node: Node, peer: str) -> None:
        self.number = number
        """Differs from that of every other connection, whichever node it is with."""
        self.node = node
        self.peer = peer
        """The client's host."""
        self.principal = ANONYMOUS
        self.client_id: str | None = None
        """As its last request says."""
        self.is_open = True
        self.closed = Signal()
        """Fires once, when the client has disconnected: before on_closed, so that parked requests end first."""
        self.send_answers: Callable[[], Awaitable[bool]] = _no_answers
        """Sends what was answered and kept back; whether there was anything. Set by the conversation."""
        self._hooks: dict[object, Callable[[], None]] = {}

    def on_closed(self, key: object, call: Callable[[], None]) -> None:
        """`call` is called when the connection has ended and its last request is through; one call a key."""
        self._hooks[key] = call

    def forget_hook(self, key: object) -> None:
        self._hooks.pop(key, None)

    def end(self) -> None:
        """The client has disconnected."""
        if self.is_open:
            self.is_open = False
            self.closed.fire()

    def run_hooks(self) -> None:
        hooks, self._hooks = list(self._hooks.values()), {}
        for call in hooks:
            call()


async def _no_answers() -> bool:
    return False


@dataclass(slots=True)
class Call:
    """One request, beside its body."""

    broker: Broker
    node: Node
    connection: ClientConnection
    api_key: int
    version: int
    client_id: str | None

    @property
    def now(self) -> int:
        return self.broker.clock.now()

    def is_authorized(self, operation: Operation, on: AclResource, name: str) -> bool:
        connection = self.connection
        return self.broker.authorizer.is_authorized(
            connection.principal, connection.peer, operation, on, name
        )

    def require(self, operation: Operation, on: AclResource, name: str) -> None:
        """Raises Refusal for a client that lacks the right."""
        if not self.is_authorized(operation, on, name):
            raise RequestError(on.refusal, f"{on.name.capitalize()} authorization failed.")

    async def wait(self, signals: Iterable[Signal], until: int) -> bool:
        """Parks the request until a signal fires (True), or time is up or the client is gone (False).

        while not enough() and await call.wait([log.appended], deadline): look again

        Earlier answers are sent first. That takes time in which signals aren't heard, so it is a reason to look again.
        """
        if not self.connection.is_open:
            return False
        if await self.connection.send_answers():
            return True
        heard = [*signals, self.connection.closed]
        in_time = await wait_for_any(heard, self.broker.clock, until)
        return in_time and self.connection.is_open
