"""What a handler's records go through, put together: queue → processing → rules → executor.

It knows nothing of where records come from, so trials of tests use it as well.
"""

from __future__ import annotations

from kshare.errors import KshareError
from kshare.worker.host import RunningHandler
from kshare.worker.queue.work_queue import Item, WorkQueue
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
        options = handler.options
        self.writes = BoundedWrites(publisher, handler.clock)
        self.caller = Caller(
            handler.route.call, handler.route.middleware, options.most_at_once, handler.watch, handler.summary
        )
        self.queue = WorkQueue(handler, self._on_gone)
        self.admission = Admission(handler, self.queue)
        self.keep_calls = KeepCalls(handler)
        self.executor = Executor(handler, self.queue, Copies(handler, self.writes, self.keep_calls))
        self.runs = (
            None if options.tiers is None else MovedRuns(handler, self.writes, options.tiers, self.queue)
        )
        self.processing = Processing(
            handler, self.caller, self.queue, self.executor, self.admission, self.writes, self.runs
        )

    async def close(self) -> None:
        """Call it at the end."""
        await self.caller.close()
        self.handler.summary.close()

    def _on_gone(self, item: Item) -> None:
        """Its lock was lost before it was processed."""
        self.executor.on_lost(self.handler.route.delivery_of(item), KshareError("before it was its turn"))
        self.processing.leave_lane(item)
