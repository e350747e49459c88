"""Bounds how long copies and results are written once a worker is stopping: it has to end, whatever brokers do."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from kshare.errors import KshareError
from kshare.producer.records import NewRecord, Produced
from kshare.worker.records.headers import Header
from kshare.worker.records.results import Result
from kshare.worker.settle.outbound import Publisher

ResultT = TypeVar("ResultT")


class BoundedWrites:
    """`Publisher` that can be told to end. `clock` is the event loop's."""

    def __init__(self, publisher: Publisher, clock: Callable[[], float]) -> None:
        self._publisher = publisher
        self._clock = clock
        self._deadline = math.inf
        self._scopes: dict[anyio.CancelScope, None] = {}
        """Of what is being written, in order: a set's would depend on addresses in memory."""

    def end_in(self, seconds: float) -> None:
        """What isn't written by then fails, and so does everything later. May be called in a callback of the loop."""
        self._deadline = min(self._deadline, self._clock() + seconds)
        for scope in self._scopes:
            scope.deadline = self._deadline

    async def publish(self, topic: str, record: NewRecord, partition: int | None = None) -> Produced:
        self._require_time()
        return await self._within(self._publisher.publish(topic, record, partition))

    async def call(self, function: Callable[[], Awaitable[object]], limit: float) -> object:
        """Let a function of the user's write something. Raises KshareError if that takes longer than the limit.

        If it returns although it was cancelled, nobody knows what it has written.
        """
        self._require_time()

        async def call() -> object:
            result = await function()
            await checkpoint_if_cancelled()
            return result

        return await self._within(call(), limit)

    async def write(self, results: Sequence[Result]) -> None:
        self._require_time()
        await self._within(self._publisher.write(results))

    async def has_later(self, topic: str, partition: int, offset: int, header: Header) -> bool:
        self._require_time()
        return await self._within(self._publisher.has_later(topic, partition, offset, header))

    def _require_time(self) -> None:
        """A write that is cancelled at once might be made all the same."""
        if self._clock() >= self._deadline:
            raise KshareError("the worker is stopping, and has no time left to write")

    async def _within(self, result: Awaitable[ResultT], limit: float = math.inf) -> ResultT:
        with anyio.move_on_after(None if limit == math.inf else limit):
            with anyio.CancelScope(deadline=self._deadline) as scope:
                self._scopes[scope] = None
                try:
                    return await result
                finally:
                    del self._scopes[scope]
            raise KshareError("it wasn't confirmed in time, and the worker is stopping")
        raise KshareError(f"it took longer than {limit:g} s")
