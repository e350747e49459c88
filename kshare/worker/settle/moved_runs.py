"""Long runs that were moved out of the way: their record doesn't pin the in-flight window while the handler continues.

    moved    → a copy is written to the shortest retry topic, with the id of the run; then the record is accepted
    running  → another copy now and then, each due a while later than the last
    over     → a mark; before it, what else there is to write: a dead letter, or a copy for the next attempt

All of these are in one partition. Whoever holds a copy looks there when it is due: if the log has something later of
the same run, the copy is out of date and accepted. If not, the worker that ran it has died, and the record is processed
again. So it is never lost, and processed twice only if its worker dies, or can't write for as long as a copy takes to
become due.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import anyio
from anyio.abc import TaskGroup, TaskStatus

from kshare.errors import AcknowledgeError, KshareError
from kshare.producer.records import NewRecord, Produced
from kshare.surroundings import random_bytes
from kshare.worker.host import RunningHandler
from kshare.worker.queue.work_queue import WorkQueue, is_held
from kshare.worker.records.delivery import Delivery, copy_context
from kshare.worker.records.headers import Header, run_mark
from kshare.worker.rules.retry_topics import RetryTopics
from kshare.worker.settle.outbound import Publisher

SHORTEST_S = 15.0
"""How long a copy takes to become due, at least."""
BEATS = 3
"""How many copies are written in the time that one takes to become due."""


class MovedRuns:
    """`topic` of a record is the one that it was first written to."""

    def __init__(
        self, handler: RunningHandler, publisher: Publisher, tiers: RetryTopics, queue: WorkQueue
    ) -> None:
        self._handler = handler
        self._publisher = publisher
        self._tiers = tiers
        self._queue = queue
        self._due_s = max(SHORTEST_S, tiers.tiers[0])
        """How long a copy takes to become due."""
        self._keeping: dict[Delivery, anyio.CancelScope] = {}
        """Writes further copies of runs that were moved."""

    def is_in_the_way(self, delivery: Delivery) -> bool:
        """Whether its handler runs, and it pins too much of the in-flight window."""
        return (
            delivery.moving is None
            and delivery.decision is None
            and not delivery.is_over
            and is_held(delivery)
            and delivery.context is None
            and not (delivery.is_stray or delivery.is_oversized)
            and self._queue.pinned(delivery) > self._handler.max_span
        )

    async def start_moving(self, delivery: Delivery, tasks: TaskGroup) -> None:
        await tasks.start(self._move, delivery, name="kshare worker: move a run")

    async def _move(self, delivery: Delivery, *, task_status: TaskStatus[None]) -> None:
        """Move it out of the way, and write further copies of it until its handler has ended."""
        delivery.moving = anyio.Event()
        task_status.started()
        try:
            is_moved = await self._move_once(delivery)
        finally:
            delivery.moving.set()
        if is_moved:
            self._handler.counts.moved += 1
            cause = "records were moved out of the way, because their handlers take long"
            self._handler.log(logging.INFO, cause, delivery)
            with anyio.CancelScope() as scope:
                self._keeping[delivery] = scope
                await self._keep(delivery)

    async def _move_once(self, delivery: Delivery) -> bool:
        """Write the first copy, and accept the record. Returns False if nothing was settled."""
        run = random_bytes(16).hex()
        with anyio.CancelScope(shield=True):
            try:
                written = await self._write_copy(delivery, run, None)
            except KshareError as problem:
                self._warn("records can't be moved out of the way", delivery, problem)
                return False
            if delivery.decision is not None or delivery.is_over:
                await self._mark(delivery, run, written.partition)
                return False
            try:
                delivery.record.accept()
            except AcknowledgeError as problem:
                self._warn("records lost their locks while being moved", delivery, problem)
                return False
            delivery.moved_to = (run, written.partition)
        return True

    async def _keep(self, delivery: Delivery) -> None:
        """Write further copies, until cancelled."""
        assert delivery.moved_to is not None, "moved before"
        run, partition = delivery.moved_to
        while True:
            await anyio.sleep(self._due_s / BEATS)
            try:
                await self._write_copy(delivery, run, partition)
            except KshareError as problem:
                cause = "records can't be copied while their handler runs; after a while, they may be processed again"
                self._warn(cause, delivery, problem)

    async def finish(self, delivery: Delivery) -> None:
        """Its run is over, and what became of it is written."""
        scope = self._keeping.pop(delivery, None)
        if scope is not None:
            scope.cancel()
        if delivery.moved_to is not None:
            run, partition = delivery.moved_to
            with anyio.CancelScope(shield=True):
                await self._mark(delivery, run, partition)

    async def is_over(self, delivery: Delivery) -> bool:
        """Whether a copy that is due is out of date."""
        assert delivery.context is not None, "a copy"
        record = delivery.record
        return await self._publisher.has_later(
            record.topic, record.partition, record.offset, run_mark(delivery.context.run)
        )

    async def _write_copy(self, delivery: Delivery, run: str, partition: int | None) -> Produced:
        unfinished = delivery.unfinished + 1  # it is only used if this one doesn't end
        due_ms = self._handler.now_ms() + round(self._due_s * 1000)
        context = replace(copy_context(delivery, delivery.attempt, due_ms), run=run, unfinished=unfinished)
        headers = [*delivery.headers, *context.headers()]
        return await self._publish(delivery, delivery.value, headers, partition)

    async def _mark(self, delivery: Delivery, run: str, partition: int) -> None:
        context = replace(copy_context(delivery, delivery.attempt, 0), run=run, is_over=True)
        try:
            await self._publish(delivery, None, context.headers(), partition)
        except KshareError as problem:
            cause = (
                "records are processed, but will be processed again, because their last copy can't be written"
            )
            self._warn(cause, delivery, problem)

    async def _publish(
        self, delivery: Delivery, value: bytes | None, headers: list[Header], partition: int | None
    ) -> Produced:
        topic = self._tiers.topic(delivery.topic, self._tiers.tiers[0])
        record = NewRecord(value, delivery.key, headers, self._handler.now_ms())
        return await self._publisher.publish(topic, record, partition)

    def _warn(self, cause: str, delivery: Delivery, problem: KshareError) -> None:
        self._handler.log(logging.WARNING, cause, delivery, problem)


async def until_moved(delivery: Delivery) -> None:
    """Wait while the record is being moved: what becomes of it depends on that."""
    if delivery.moving is not None:
        with anyio.CancelScope(shield=True):
            await delivery.moving.wait()
