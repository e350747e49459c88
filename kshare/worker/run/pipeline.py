"""What a handler's records go through, put together: queue → processing → rules → executor.

It knows nothing of where records come from, so trials of tests use it as well.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kshare.engine.notifier import Notifier
from kshare.errors import KshareError
from kshare.summary_log import SummaryLog
from kshare.worker.handlers.routes import Route
from kshare.worker.host import Clocks, Host
from kshare.worker.queue.work_queue import Item, WorkQueue
from kshare.worker.rules.limits import ShareLimits
from kshare.worker.rules.window import max_span
from kshare.worker.run.admission import Admission
from kshare.worker.run.calling import Caller
from kshare.worker.run.failures import HandlerFailures
from kshare.worker.run.processing import Processing
from kshare.worker.settle.bounded_writes import BoundedWrites
from kshare.worker.settle.copies import Copies
from kshare.worker.settle.executor import Executor
from kshare.worker.settle.keep_calls import KeepCalls
from kshare.worker.settle.long_runs import LongRuns
from kshare.worker.settle.moved_runs import MovedRuns
from kshare.worker.settle.outbound import Publisher
from kshare.worker.watch.counts import Counts
from kshare.worker.watch.observer import WorkerObserver
from kshare.worker.watch.watching import Watch

log = logging.getLogger("kshare.worker")


class Pipeline:
    """For one handler."""

    def __init__(
        self,
        route: Route,
        publisher: Publisher,
        limits: ShareLimits,
        host: Host,
        clocks: Clocks,
        observers: Sequence[WorkerObserver] = (),
    ) -> None:
        self._route = route
        self._limits = limits
        options = route.options
        self.counts = Counts()
        self.changed = Notifier()
        """Sent when a record is held, and when a slot has nothing more to do."""
        fields = {"group": route.group, "handler": route.name}
        self.summary = SummaryLog(log, f"{route.group}, handler {route.name}", fields=fields)
        watch = Watch(observers, route.name, route.group, self.summary, clocks.loop)
        self.writes = BoundedWrites(publisher, clocks.loop)
        self.caller = Caller(route.call, route.middleware, options.most_at_once, watch, self.summary)
        self.queue = WorkQueue(
            route,
            max_span=self._max_span,
            careful_from=limits.last_safe_delivery,
            on_gone=self._on_gone,
            summary=self.summary,
        )
        self.admission = Admission(
            route, self.queue, self.counts, watch, limits, self.summary, host, self.changed, clocks.loop
        )
        self.keep_calls = KeepCalls(options.most_at_once, self.summary)
        copies = Copies(route, self.writes, self.keep_calls, limits, self.summary, clocks)
        self.executor = Executor(
            route.options,
            limits,
            host,
            clocks,
            queue=self.queue,
            copies=copies,
            counts=self.counts,
            summary=self.summary,
            watch=watch,
        )
        runs = (
            None if copies.tiers is None else MovedRuns(self.writes, copies.tiers, self.summary, clocks.wall)
        )
        self.long_runs = (
            LongRuns(runs, self.queue, self.counts, self.summary, self._max_span)
            if runs is not None and options.move_runs
            else None
        )
        self.processing = Processing(
            route,
            self.caller,
            self.queue,
            self.executor,
            HandlerFailures(route, self.admission, self.counts, self.summary),
            self.admission,
            self.writes,
            host,
            runs,
            self.long_runs,
            self.counts,
            self.summary,
        )

    @property
    def _max_span(self) -> int:
        """How much of the window of a partition a record may pin."""
        return max_span(self._route.options.max_pinned, self._limits.window)

    def on_limits(self) -> None:
        """The limits of the group have changed."""
        self.queue.set_limits(max_span=self._max_span, careful_from=self._limits.last_safe_delivery)
        if self.long_runs is not None:
            self.long_runs.max_span = self._max_span

    async def close(self) -> None:
        """Call it at the end."""
        await self.caller.close()
        self.summary.close()

    def _on_gone(self, item: Item) -> None:
        """Its lock was lost before it was processed."""
        self.executor.on_lost(self._route.delivery_of(item), KshareError("before it was its turn"))
        self.processing.leave_lane(item)
