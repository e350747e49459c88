"""Loses what clients send or get, request by request: before it arrives, when it was executed, or until later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import anyio
from anyio.abc import TaskGroup

from kshare.errors import ConnectionLost, KshareError, RequestTimedOut
from kshare.net.connection import Connection
from kshare.protocol.messages import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ProduceRequest,
)

REQUESTS = (
    InitProducerIdRequest,
    FindCoordinatorRequest,
    AddPartitionsToTxnRequest,
    ProduceRequest,
    EndTxnRequest,
)
_EXECUTED_LATE = (AddPartitionsToTxnRequest, ProduceRequest, EndTxnRequest)
"""If InitProducerId is executed in a later transaction, coordinators fence its producer. That can't be prevented."""
_LATEST_S = 0.3


class LostResponses:
    """`rate`: the share of requests that something happens to."""

    def __init__(self, random: Random, tasks: TaskGroup, rate: float) -> None:
        self.lost: Counter[str] = Counter()
        self.rate = rate
        self._random = random
        self._tasks = tasks

    async def ask(self, original: Any, connection: Connection, request: Any, **options: Any) -> Any:
        if not isinstance(request, REQUESTS) or self._random.random() >= self.rate:
            return await original(connection, request, **options)
        kinds = ["not sent", "response lost"]
        if isinstance(request, _EXECUTED_LATE):
            kinds.append("executed later")
        kind = self._random.choice(kinds)
        self.lost[f"{request.NAME} {kind}"] += 1
        if kind == "response lost":
            await original(connection, request, **options)
        elif kind == "executed later":
            self._tasks.start_soon(self._ask_later, original, connection, request, options)
            raise RequestTimedOut(f"{request.NAME} is executed later")
        raise ConnectionLost(f"{request.NAME}: {kind}")

    async def _ask_later(self, original: Any, connection: Any, request: Any, options: Any) -> None:
        await anyio.sleep(self._random.uniform(0, _LATEST_S))
        try:
            await original(connection, request, **options)
        except KshareError:
            return  # the connection was closed

    @contextmanager
    def active(self) -> Iterator[None]:
        original, replaced = Connection.ask, self.ask

        async def ask(connection: Connection, request: Any, **options: Any) -> Any:
            return await replaced(original, connection, request, **options)

        Connection.ask = ask  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            Connection.ask = original  # type: ignore[method-assign]
