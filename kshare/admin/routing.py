"""Sends each request to the right broker, and retries errors that pass.

Decides what is tried again: what the protocol calls retriable, and lost answers of requests that may be carried out
twice. Group requests go to the group's coordinator, which is looked up each time since it may have moved. Topics
and configurations may be asked of any broker: since Kafka has no ZooKeeper, brokers pass them on to the controller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import anyio

from kshare.errors import BrokerError, ConnectionLost, KshareError, RequestTimedOut
from kshare.net.addresses import format_address
from kshare.net.permissions import Right, missing_right, refusal
from kshare.net.pool import Pool
from kshare.protocol.error_codes import RETRIABLE, ErrorCode
from kshare.protocol.message import Message, Request
from kshare.protocol.messages import FindCoordinatorRequest, MetadataRequest, MetadataResponse
from kshare.protocol.messages.metadata_request import MetadataRequestTopic

T = TypeVar("T")
ResponseT = TypeVar("ResponseT", bound=Message)
ErrorsOf = Callable[[ResponseT], Iterable["ResponseError | None"]]
"""The errors that an answer holds; None stands for what went well."""

# A name that was misspelt is no reason to wait for half a minute, though right after a creation it would pass.
_PASSES = RETRIABLE - {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 1.0


@dataclass(frozen=True, slots=True)
class ResponseError:
    """What an answer says of something that was asked for."""

    code: int
    what: str
    message: str | None
    needs: tuple[Right, ...]
    """The rights that brokers look for before they do such a thing."""


class _OutcomeUnknown(Exception):
    """Whether the request was carried out is open, and it must not be carried out twice."""

    def __init__(self, error: KshareError) -> None:
        self.error = error


class Router:
    """`limit` is for all of a task: finding the broker, connecting, asking and asking again."""

    def __init__(self, pool: Pool, limit: float) -> None:
        self._pool = pool
        self._limit = limit
        self._coordinators: dict[int, str] = {}

    async def retry(self, step: Callable[[float], Awaitable[T]]) -> T:
        """`step` is given the deadline, and done again while its error is one that passes."""
        deadline = anyio.current_time() + self._limit
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return await step(deadline)
            except _OutcomeUnknown as lost:
                raise lost.error from None
            except (ConnectionLost, RequestTimedOut) as error:
                if anyio.current_time() + pause >= deadline:
                    raise error from None
            except BrokerError as error:
                if error.code not in _PASSES or anyio.current_time() + pause >= deadline:
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
        self, node: int, request: Request[ResponseT], errors_of: ErrorsOf[ResponseT]
    ) -> ResponseT:
        async def step(deadline: float) -> ResponseT:
            return await self.ask(node, request, errors_of, deadline)

        return await self.retry(step)

    async def ask_coordinator(
        self,
        group: str,
        request: Request[ResponseT],
        errors_of: ErrorsOf[ResponseT],
        *,
        is_repeatable: bool = True,
    ) -> tuple[int, ResponseT]:
        """The node that answered, and its answer."""

        async def step(deadline: float) -> tuple[int, ResponseT]:
            node = await self._coordinator(group, deadline)
            if is_repeatable and self._pool.has_alternatives:
                deadline -= _until(deadline) / 2  # so that another can be found, should this one stay silent
            return node, await self.ask(node, request, errors_of, deadline, is_repeatable=is_repeatable)

        return await self.retry(step)

    def address_of(self, coordinator: int) -> str:
        """Of a node that has answered as a coordinator."""
        return self._coordinators[coordinator]

    async def ask(
        self,
        node: int | None,
        request: Request[ResponseT],
        errors_of: ErrorsOf[ResponseT],
        deadline: float,
        *,
        is_repeatable: bool = True,
    ) -> ResponseT:
        """Once. Raises the first error of the answer, those that pass before others."""
        connection = await self._pool.connection(node, timeout=_until(deadline))
        left = _until(deadline)
        if node is None and is_repeatable and self._pool.has_alternatives:
            left /= 2  # so that there is time to ask another broker, should this one stay silent
        try:
            answer = await connection.ask(request, timeout=left)
        except (ConnectionLost, RequestTimedOut) as error:
            if is_repeatable:
                raise
            raise _OutcomeUnknown(error) from None
        found = [response_error for response_error in errors_of(answer) if response_error]
        for response_error in sorted(found, key=lambda one: one.code not in _PASSES):
            refused = self._error(response_error)
            if len(found) > 1:
                refused.add_note(f"and {len(found) - 1} more")
            raise refused
        return answer

    async def metadata(self, topics: Iterable[str] | None, deadline: float | None = None) -> MetadataResponse:
        """Of these topics, or of all; never creates one."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)

        def errors_of(answer: MetadataResponse) -> Iterable[ResponseError | None]:
            yield response_error(answer.error_code, "looking for the brokers")
            for topic in answer.topics if wanted else ():
                name = topic.name or ""
                yield response_error(
                    topic.error_code, f"topic {name}", needs=[Right("Describe", "topic", name)]
                )

        if deadline is None:
            answer = await self.ask_any(request, errors_of)
        else:
            answer = await self.ask(None, request, errors_of, deadline)
        self.learn(answer)
        return answer

    def learn(self, answer: MetadataResponse) -> None:
        """Where the nodes are."""
        self._pool.learn({one.node_id: (one.host, one.port, one.rack) for one in answer.brokers})

    def _error(self, response_error: ResponseError) -> BrokerError:
        right = missing_right(response_error.code, response_error.needs)
        if right is None:
            return BrokerError(response_error.code, response_error.what, response_error.message)
        return refusal(response_error.code, response_error.what, right, self._pool.settings)

    async def _coordinator(self, group: str, deadline: float) -> int:
        answer = await self.ask(
            None,
            FindCoordinatorRequest(coordinator_keys=[group]),
            lambda answer: [
                response_error(
                    one.error_code,
                    f"looking for the coordinator of {group}",
                    one.error_message,
                    [Right("Describe", "group", group)],
                )
                for one in answer.coordinators
            ],
            deadline,
        )
        found = answer.coordinators[0]
        self._pool.learn({found.node_id: (found.host, found.port, None)})
        self._coordinators[found.node_id] = format_address((found.host, found.port))
        return found.node_id


def response_error(
    code: int, what: str, message: str | None = None, needs: Iterable[Right] = ()
) -> ResponseError | None:
    """None if all went well."""
    return ResponseError(code, what, message, tuple(needs)) if code else None


def _until(deadline: float) -> float:
    return max(0.0, deadline - anyio.current_time())
