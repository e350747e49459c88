"""Sends each request to the right broker, and retries transient errors.

Decides what is retried: errors that the protocol calls retriable, and requests without a response if they may be
executed twice. Group requests go to the group's coordinator, which is looked up each time since it may have moved.
Requests about topics and configurations go to any broker: without ZooKeeper, brokers forward them to the controller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, TypeVar

import anyio

from kshare.admin.expected_rows import expected_row, left_out
from kshare.errors import BrokerError, ConnectionLost, KshareError, RequestTimedOut
from kshare.net.addresses import format_address
from kshare.net.connection import Connection
from kshare.net.permissions import ResourceKind, Right, missing_right, refusal
from kshare.net.pool import Pool
from kshare.protocol.error_codes import RETRIABLE, ErrorCode
from kshare.protocol.message import Message, Request
from kshare.protocol.messages import FindCoordinatorRequest, MetadataRequest, MetadataResponse
from kshare.protocol.messages.find_coordinator_response import Coordinator
from kshare.protocol.messages.metadata_request import MetadataRequestTopic

T = TypeVar("T")
ResponseT = TypeVar("ResponseT", bound=Message)
ErrorsOf = Callable[[ResponseT], Iterable["ResponseError | None"]]
"""The errors in a response; None stands for success."""

# A misspelt name shouldn't be retried for half a minute, though right after a creation a retry would succeed.
_UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_PASSES = RETRIABLE - _UNKNOWN
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 1.0


class CoordinatorKind(IntEnum):
    """What a coordinator coordinates, as FindCoordinator numbers it."""

    GROUP = 0
    TRANSACTION = 1


_RESOURCE_OF: dict[CoordinatorKind, ResourceKind] = {
    CoordinatorKind.GROUP: "group",
    CoordinatorKind.TRANSACTION: "transactional-id",
}


@dataclass(frozen=True, slots=True)
class ResponseError:
    """An error in a response, about one of the things that were requested."""

    code: int
    what: str
    message: str | None
    needs: tuple[Right, ...]
    """The rights that brokers require for the request."""


class _Row(Protocol):
    error_code: int


class _OutcomeUnknown(Exception):
    """The request may have been executed, and must not be executed twice."""

    def take_error(self) -> KshareError:
        """Call it once: afterwards, nothing has the error that is raised (see `kshare.errors`)."""
        errors: list[KshareError] = [*self.args]
        self.args = ()
        return errors.pop()


class Router:
    """Sends requests. `limit` is the time for a whole operation: finding the broker, connecting, and all retries."""

    def __init__(self, pool: Pool, limit: float) -> None:
        self.pool = pool
        self.limit = limit
        self.requests = 0
        """Requests sent so far, without those by which connections are opened."""
        self._coordinators: dict[int, str] = {}

    async def retry(self, step: Callable[[float], Awaitable[T]], *, unknown_s: float = 0.0) -> T:
        """Call `step` with the deadline, and repeat that while it raises transient errors.

        `unknown_s`: for how long an unknown topic counts as one, too. Brokers learn of a new topic a little after it
        was created, and of all topics a little after their own start.
        """
        began = anyio.current_time()
        deadline = began + self.limit
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return await step(deadline)
            except _OutcomeUnknown as lost:
                raise lost.take_error() from None
            except (ConnectionLost, RequestTimedOut) as error:
                if anyio.current_time() + pause >= deadline:
                    raise error from None
            except BrokerError as error:
                end = began + unknown_s if error.code in _UNKNOWN else deadline
                if error.code not in RETRIABLE or anyio.current_time() + pause >= end:
                    raise error from None
            await anyio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def ask_any(
        self, request: Request[ResponseT], errors_of: ErrorsOf[ResponseT], *, is_repeatable: bool = True
    ) -> ResponseT:
        async def step(deadline: float) -> ResponseT:
            return await self.ask(None, request, errors_of, deadline, is_repeatable=is_repeatable)

        return await self.retry(step)

    async def ask_node(
        self,
        node: int | None,
        request: Request[ResponseT],
        errors_of: ErrorsOf[ResponseT],
        *,
        version: int | None = None,
    ) -> ResponseT:
        async def step(deadline: float) -> ResponseT:
            return await self.ask(node, request, errors_of, deadline, version=version)

        return await self.retry(step)

    async def ask_coordinator(
        self,
        group: str,
        request: Request[ResponseT],
        errors_of: ErrorsOf[ResponseT],
        *,
        is_repeatable: bool = True,
        kind: CoordinatorKind = CoordinatorKind.GROUP,
        version: int | None = None,
        on_sent: Callable[[], object] | None = None,
    ) -> tuple[int, ResponseT]:
        """Returns the node that responded, and its response. With another `kind`, `group` is a transactional id.

        `on_sent` is called before each attempt to send the request.
        """

        async def step(deadline: float) -> tuple[int, ResponseT]:
            node = await self._coordinator(group, kind, deadline)
            if is_repeatable and self.pool.has_alternatives:
                deadline -= _until(deadline) / 2  # leaves time to find another if this one doesn't respond
            return node, await self.ask(
                node,
                request,
                errors_of,
                deadline,
                is_repeatable=is_repeatable,
                version=version,
                on_sent=on_sent,
            )

        return await self.retry(step)

    def address_of(self, coordinator: int) -> str:
        """The address of a node that has responded as a coordinator."""
        return self._coordinators[coordinator]

    async def ask(
        self,
        node: int | None,
        request: Request[ResponseT],
        errors_of: ErrorsOf[ResponseT],
        deadline: float,
        *,
        is_repeatable: bool = True,
        version: int | None = None,
        on_sent: Callable[[], object] | None = None,
    ) -> ResponseT:
        """Ask once. Raises the first error of the response, transient errors before others."""
        connection = await self.pool.connection(node, timeout=_until(deadline))
        remaining = _until(deadline)
        if node is None and is_repeatable and self.pool.has_alternatives:
            remaining /= 2  # leaves time to ask another broker if this one doesn't respond
        self.requests += 1
        if on_sent is not None:
            on_sent()
        try:
            response = await self.send(connection, request, version, remaining)
        except (ConnectionLost, RequestTimedOut) as error:
            if is_repeatable:
                raise
            raise _OutcomeUnknown(error) from None
        found = [response_error for response_error in errors_of(response) if response_error]
        for response_error in sorted(found, key=lambda error: error.code not in _PASSES):
            refused = self._error(response_error)
            if len(found) > 1:
                refused.add_note(f"and {len(found) - 1} more")
            try:
                raise refused
            finally:
                del refused  # see `kshare.errors`
        return response

    async def send(
        self, connection: Connection, request: Request[ResponseT], version: int | None, timeout: float
    ) -> ResponseT:
        """Every request is sent by this method."""
        return await connection.ask(request, version=version, timeout=timeout)

    async def metadata(self, topics: Iterable[str] | None, deadline: float | None = None) -> MetadataResponse:
        """The metadata of these topics, each with a row, or of all. Never creates a topic."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)

        def errors_of(response: MetadataResponse) -> Iterable[ResponseError | None]:
            yield response_error(response, "finding the brokers")
            for topic in response.topics if wanted else ():
                name = topic.name or ""
                yield response_error(topic, f"topic {name}", Right("Describe", "topic", name))

        if deadline is None:
            response = await self.ask_any(request, errors_of)
        else:
            response = await self.ask(None, request, errors_of, deadline)
        self.learn(response)
        named = {topic.name for topic in response.topics}
        for topic in wanted or ():
            if topic.name not in named:
                raise left_out("Metadata", f"topic {topic.name}")
        return response

    async def any_node(self) -> int:
        """The id of some broker."""
        return expected_row((await self.metadata([])).brokers, "Metadata", "any broker").node_id

    async def leader(self, topic: str, partition: int, deadline: float) -> tuple[int, bytes]:
        """The leader of a partition, and the topic's id. Raises LEADER_NOT_AVAILABLE if there is none at the moment."""
        found = (await self.metadata([topic], deadline)).topics[0]
        leaders = {row.partition_index: row.leader_id for row in found.partitions}
        leader = leaders.get(partition, -1)
        if leader < 0:
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}[{partition}]")
        return leader, found.topic_id

    def learn(self, response: MetadataResponse) -> None:
        """Remember the addresses of the brokers."""
        self.pool.learn(
            {broker.node_id: (broker.host, broker.port, broker.rack) for broker in response.brokers}
        )

    def _error(self, response_error: ResponseError) -> BrokerError:
        right = missing_right(response_error.code, response_error.needs)
        if right is None:
            return BrokerError(response_error.code, response_error.what, response_error.message)
        return refusal(response_error.code, response_error.what, right, self.pool.settings)

    async def coordinators(self, groups: Sequence[str]) -> dict[int, list[str]]:
        """The coordinators of many groups, found with one request; groups without one at the moment are left out."""
        request = FindCoordinatorRequest(key_type=CoordinatorKind.GROUP, coordinator_keys=list(groups))
        response = await self.ask_any(request, lambda response: ())
        found: dict[int, list[str]] = {}
        for coordinator in response.coordinators:
            if not coordinator.error_code:
                self._learn_coordinator(coordinator)
                found.setdefault(coordinator.node_id, []).append(coordinator.key)
        return found

    async def _coordinator(self, group: str, kind: CoordinatorKind, deadline: float) -> int:
        action, right = f"finding the coordinator of {group}", Right("Describe", _RESOURCE_OF[kind], group)
        response = await self.ask(
            None,
            FindCoordinatorRequest(key_type=kind, coordinator_keys=[group]),
            lambda response: [response_error(row, action, right) for row in response.coordinators],
            deadline,
        )
        found = expected_row(response.coordinators, "FindCoordinator", f"the coordinator of {group}")
        self._learn_coordinator(found)
        return found.node_id

    def _learn_coordinator(self, found: Coordinator) -> None:
        self.pool.learn({found.node_id: (found.host, found.port, None)})
        self._coordinators[found.node_id] = format_address((found.host, found.port))


def response_error(row: _Row, action: str, *needs: Right) -> ResponseError | None:
    """The error of a response, or of a row in it; None for success. `needs`: the rights that the request needs."""
    message: str | None = getattr(row, "error_message", None)
    return ResponseError(row.error_code, action, message, needs) if row.error_code else None


def _until(deadline: float) -> float:
    return max(0.0, deadline - anyio.current_time())
