"""A router for an examination, which has to end soon also if brokers don't respond.

A broker that hasn't responded to a request isn't asked the same again. One that can't be reached is asked nothing.
After each operation that got nothing within its limit, the limit of the following ones is halved, so that all of them
together wait for twice the first limit, and a second for each one more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

import anyio

from kshare.admin.routing import Router
from kshare.errors import BrokerError, ConnectionLost, KshareError, RequestTimedOut
from kshare.net.connection import Connection
from kshare.net.pool import Pool
from kshare.protocol.message import Message, Request

T = TypeVar("T")
ResponseT = TypeVar("ResponseT", bound=Message)

_FIRST_LIMIT_S, _LEAST_LIMIT_S = 15.0, 1.0


class NotAskedAgain(KshareError):
    """Another request has met the same. Not retried, unlike the errors that say it first."""


class ExaminingRouter(Router):
    def __init__(self, pool: Pool) -> None:
        super().__init__(pool, _FIRST_LIMIT_S)
        self._reachable: Collection[int] = ()
        self._unreachable: Mapping[int, str] = {}
        self._without_response: dict[tuple[str, int], str] = {}
        """What was said of the request that this node hasn't responded to."""

    @property
    def without_response(self) -> Iterable[str]:
        """What to say of requests without a response, also if another broker has responded to them."""
        return self._without_response.values()

    def note_brokers(self, reachable: Collection[int], unreachable: Mapping[int, str]) -> None:
        self._reachable, self._unreachable = reachable, unreachable

    async def retry(self, step: Callable[[float], Awaitable[T]], *, unknown_s: float = 0.0) -> T:
        began, limit = anyio.current_time(), self.limit
        try:
            return await super().retry(step, unknown_s=unknown_s)
        except (ConnectionLost, RequestTimedOut, BrokerError):
            # Retries end before a pause that would exceed the limit.
            if anyio.current_time() - began >= limit / 4:
                self.limit = max(min(limit, _LEAST_LIMIT_S), limit / 2)
            raise

    async def ask(
        self, node: int | None, request: Request[ResponseT], *arguments: Any, **options: Any
    ) -> ResponseT:
        return await super().ask(self._responsive(request.NAME, node), request, *arguments, **options)

    async def send(
        self, connection: Connection, request: Request[ResponseT], version: int | None, timeout: float
    ) -> ResponseT:
        try:
            return await super().send(connection, request, version, timeout)
        except RequestTimedOut as error:
            self._without_response[request.NAME, self.pool.node_at(connection.peer)] = str(error)
            raise

    def _responsive(self, api: str, node: int | None) -> int | None:
        """The broker to ask: `node`, if it is given. None means any."""
        if node is not None:
            if reason := self._without_response.get((api, node)) or self._unreachable.get(node):
                raise NotAskedAgain(reason)
            return node
        reasons = [reason for (name, _), reason in self._without_response.items() if name == api]
        if not reasons:
            return None
        for other in self._reachable:
            if (api, other) not in self._without_response:
                return other
        raise NotAskedAgain(reasons[0])
