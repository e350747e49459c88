"""What a handler's records go through, put together: queue → processing → rules → executor.

It knows nothing of where records come from, so trials of tests use it as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kshare.errors import KshareError
from kshare.worker.host import RunningHandler
from kshare.worker.queue.work_queue import Item, WorkQueue
from kshare.worker.records.delivery import Delivery
from kshare.worker.run.admission import Admission
from kshare.worker.run.calling import Caller
from kshare.worker.run.processing import Processing
from kshare.worker.settle.bounded_writes import BoundedWrites
from kshare.worker.settle.copies import Copies
from kshare.worker.settle.executor import Executor
from kshare.worker.settle.keep_calls import KeepCalls
from kshare.worker.settle.moved_runs import MovedRuns
from kshare.worker.settle.outbound import Publisher


class Pipeline:
    def __init__(self, handler: RunningHandler, publisher: Publisher) -> None:
        self.handler = handler
        self.writes = BoundedWrites(publisher, handler.clock)
        self.caller = Caller(handler)
        self.queue = WorkQueue(handler, self._on_gone)
        self.admission = Admission(handler, self.queue)
        self.executor = Executor(handler, self.queue, Copies(handler, self.writes, KeepCalls(handler)))
        self.runs = (
            MovedRuns(handler, self.writes, tiers, self.queue)
            if (tiers := handler.options.tiers) is not None
            else None
        )
        self.processing = Processing(
            handler, self.caller, self.queue, self.executor, self.admission, self.writes, self.runs
        )
        self.settling = 0
        """How many records are being settled that no slot has."""

    def start_settling(self, settle: Callable[[Delivery], Awaitable[None]], delivery: Delivery) -> None:
        """Settle a record that no slot has, in a task: it may take long to write a copy."""
        assert self.handler.tasks is not None, "it runs"
        self.settling += 1
        name = f"kshare worker: settle a record of {self.handler.route.name}"
        self.handler.tasks.start_soon(self._settle, settle, delivery, name=name)

    async def _settle(self, settle: Callable[[Delivery], Awaitable[None]], delivery: Delivery) -> None:
        try:
            await settle(delivery)
        finally:
            self.settling -= 1
        self.processing.leave_lane(delivery)
        if self.admission.hands_back:
            self.handler.changed.send()  # the next record of its key may be handed back, too

    async def close(self) -> None:
        """Call it at the end."""
        await self.caller.close()
        self.handler.summary.close()

    def _on_gone(self, item: Item) -> None:
        """Its lock was lost before it was processed."""
        self.executor.on_lost(self.handler.route.delivery_of(item), KshareError("before it was its turn"))
        self.processing.leave_lane(item)
