"""A client connection as handlers see it, and a call: one request on it.

Whatever has state for a connection registers with `ClientConnection.on_closed`, to drop it when the connection ends.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import anyio

from kshare.broker.authorizer import AclResource, Operation
from kshare.broker.cluster import GROUP_KEY, TRANSACTION_KEY, Node
from kshare.broker.notifiers import Notifier, wait_for_any
from kshare.broker.request_error import NOT_THE_COORDINATOR, RequestError
from kshare.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kshare.broker.broker import Broker

ANONYMOUS = "User:ANONYMOUS"


class CloseConnection(Exception):
    """Raised by a handler to close the connection without a response."""


class ClientConnection:
    """The broker's state of one connection."""

    def __init__(self, number: int, node: Node, peer: str, port: int = 0) -> None:
        self.number = number
        """Unique among the connections of all nodes."""
        self.node = node
        self.peer = peer
        """The client's host."""
        self.port = port
        """The client's port."""
        self.software = ("unknown", "unknown")
        """The name and version of the client's software, from its ApiVersions request."""
        self.principal = ANONYMOUS
        self.client_id: str | None = None
        """The client id in the last request."""
        self.is_open = True
        self.closed = Notifier()
        """Fires once, when the client has disconnected: before `on_closed`, so that parked requests end first."""
        self.send_responses: Callable[[], Awaitable[bool]] = _no_responses
        """Send the responses that are buffered. Returns whether there were any. Set by the request loop."""
        self._hooks: dict[object, Callable[[], None]] = {}

    def on_closed(self, key: object, call: Callable[[], None]) -> None:
        """Call `call` when the connection has ended and its last request is done. One call per key."""
        self._hooks[key] = call

    def end(self) -> None:
        """Mark the connection as ended, as the client has disconnected."""
        if self.is_open:
            self.is_open = False
            self.closed.fire()

    def run_hooks(self) -> None:
        hooks, self._hooks = list(self._hooks.values()), {}
        for call in hooks:
            call()


async def _no_responses() -> bool:
    return False


class _Described(Protocol):
    """A group in a response."""

    error_code: int
    group_id: str
    authorized_operations: int


@dataclass(slots=True)
class Call:
    """One request, without its body."""

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

    def authorized_operations(self, on: AclResource, name: str) -> int:
        """The operations that the client may do, as a bit field of their numbers."""
        return sum(1 << each for each in on.operations if self.is_authorized(each, on, name))

    def tell_group_operations(self, groups: Iterable[_Described]) -> None:
        """Fill in what the client may do with each group that is described."""
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = self.authorized_operations(AclResource.GROUP, group.group_id)

    def require(self, operation: Operation, on: AclResource, name: str) -> None:
        """Raises RequestError if the client isn't authorized."""
        if not self.is_authorized(operation, on, name):
            raise RequestError(on.refusal, f"{on.name.capitalize()} authorization failed.")

    def coordinates_group(self, group_id: str) -> bool:
        """Whether this node is the group's coordinator."""
        return self.broker.cluster.coordinator(GROUP_KEY, group_id) is self.node

    def coordinates_transaction(self, transactional_id: str) -> bool:
        return self.broker.cluster.coordinator(TRANSACTION_KEY, transactional_id) is self.node

    def require_group_coordinator(self, group_id: str) -> None:
        """Raises RequestError if this node isn't the group's coordinator."""
        if not self.coordinates_group(group_id):
            raise RequestError(ErrorCode.NOT_COORDINATOR, NOT_THE_COORDINATOR)

    def require_transaction_coordinator(self, transactional_id: str) -> None:
        if not self.coordinates_transaction(transactional_id):
            raise RequestError(ErrorCode.NOT_COORDINATOR, NOT_THE_COORDINATOR)

    def real_deadline(self, wait_ms: int) -> float:
        """The time of the event loop at which a request that may wait `wait_ms` gets its response.

        Only needed if the broker's clock stands still: what a client asks for next, and what it acknowledges when it is
        closed, waits for this response.
        """
        return anyio.current_time() + wait_ms / 1000 if self.broker.clock.stands_still else math.inf

    async def wait(self, notifiers: Iterable[Notifier], until: int, real_until: float = math.inf) -> bool:
        """Wait until a notifier fires (True), or until one of the deadlines or a disconnect (False).

        while not enough() and await call.wait([log.appended], deadline): check again

        Earlier responses are sent first. Notifiers that fire meanwhile are missed, so it returns True in that case too.
        """
        if not self.connection.is_open:
            return False
        if await self.connection.send_responses():
            return True
        awaited = [*notifiers, self.connection.closed]
        in_time = await wait_for_any(awaited, self.broker.clock, until, real_until)
        return in_time and self.connection.is_open
