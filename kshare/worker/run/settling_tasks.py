"""Settles records that no slot has, each in a task: it may take long to write a copy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from anyio.abc import TaskGroup

from kshare.worker.records.delivery import Delivery
from kshare.worker.run.pipeline import Pipeline


class SettlingTasks:
    def __init__(self, pipeline: Pipeline, tasks: TaskGroup) -> None:
        self.count = 0
        """How many are being settled."""
        self._pipeline = pipeline
        self._tasks = tasks

    def settle(self, settle: Callable[[Delivery], Awaitable[None]], delivery: Delivery) -> None:
        self.count += 1
        name = f"kshare worker: settle a record of {self._pipeline.handler.route.name}"
        self._tasks.start_soon(self._work, settle, delivery, name=name)

    async def _work(self, settle: Callable[[Delivery], Awaitable[None]], delivery: Delivery) -> None:
        try:
            await settle(delivery)
        finally:
            self.count -= 1
        self._pipeline.processing.leave_lane(delivery)
        if self._pipeline.admission.hands_back:
            self._pipeline.handler.changed.send()  # the next record of its key may be handed back, too
