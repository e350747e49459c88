"""Runs whose record pins too much of the in-flight window: moves the record, while its handler continues."""

from __future__ import annotations

import logging

import anyio
from anyio.abc import TaskGroup, TaskStatus

from kshare.summary_log import SummaryLog
from kshare.worker.queue.work_queue import WorkQueue, is_held
from kshare.worker.records.delivery import Delivery
from kshare.worker.settle.moved_runs import MovedRuns
from kshare.worker.watch.counts import Counts
from kshare.worker.watch.log_context import log_fields


class LongRuns:
    """For one handler. `max_span`: how much of the window of a partition a record may pin."""

    def __init__(
        self, runs: MovedRuns, queue: WorkQueue, counts: Counts, summary: SummaryLog, max_span: int
    ) -> None:
        self._runs = runs
        self._queue = queue
        self._counts = counts
        self._summary = summary
        self.max_span = max_span
        self._keeping: dict[Delivery, anyio.CancelScope] = {}
        """Writes the copies of runs that were moved."""

    def is_in_the_way(self, delivery: Delivery) -> bool:
        return (
            delivery.moving is None
            and delivery.decision is None
            and not delivery.is_over
            and is_held(delivery)
            and delivery.context is None
            and not (delivery.is_stray or delivery.is_oversized)
            and self._queue.pinned(delivery) > self.max_span
        )

    async def start_moving(self, delivery: Delivery, tasks: TaskGroup) -> None:
        await tasks.start(self._move, delivery, name="kshare worker: move a run")

    async def _move(self, delivery: Delivery, *, task_status: TaskStatus[None]) -> None:
        """Move it out of the way, and write further copies of it until its handler has ended."""
        delivery.moving = anyio.Event()
        task_status.started()
        try:
            is_moved = await self._runs.move(delivery)
        finally:
            delivery.moving.set()
        if is_moved:
            self._counts.moved += 1
            cause = "records were moved out of the way, because their handlers take long"
            self._summary.event(logging.INFO, cause, repr(delivery), log_fields(delivery))
            with anyio.CancelScope() as scope:
                self._keeping[delivery] = scope
                await self._runs.keep(delivery)

    def stop_copying(self, delivery: Delivery) -> None:
        """The run is over."""
        scope = self._keeping.pop(delivery, None)
        if scope is not None:
            scope.cancel()


async def until_moved(delivery: Delivery) -> None:
    """Wait while the record is being moved: what becomes of it depends on that."""
    if delivery.moving is not None:
        with anyio.CancelScope(shield=True):
            await delivery.moving.wait()
