"""What a handler's records go through, put together: queue → processing → outcomes.

It knows nothing of where records come from, so trials of tests use it as well.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from kshare.client.record import ShareRecord
from kshare.engine.signals import Signal
from kshare.errors import KshareError
from kshare.summary_log import SummaryLog
from kshare.worker.admission import Admission
from kshare.worker.bounded_writes import BoundedWrites
from kshare.worker.calling import Caller
from kshare.worker.copies import Copies
from kshare.worker.counts import Counts
from kshare.worker.delivery import Delivery
from kshare.worker.group_limits import ShareLimits
from kshare.worker.headers import RetryContext
from kshare.worker.keep_calls import KeepCalls
from kshare.worker.long_runs import LongRuns
from kshare.worker.moved_runs import MovedRuns
from kshare.worker.observer import WorkerObserver
from kshare.worker.outbound import Publisher
from kshare.worker.outcomes import Outcomes
from kshare.worker.processing import Processing
from kshare.worker.routes import Route
from kshare.worker.settling import Settling
from kshare.worker.watching import Watch
from kshare.worker.work_queue import Item, WorkQueue

log = logging.getLogger("kshare.worker")


class Pipeline:
    """For one handler.

    `clock` is the event loop's, `wall_clock` the time of day, in seconds since 1970. `can_renew` says whether locks can
    be renewed, `release_unseen` releases a record that nobody has tried, `check_leases` looks for locks that have
    expired. `on_ready` is called when a record became ready, `on_admission` when the handler stops or goes on.
    """

    def __init__(
        self,
        route: Route,
        publisher: Publisher,
        limits: ShareLimits,
        *,
        clock: Callable[[], float],
        can_renew: Callable[[], bool],
        release_unseen: Callable[[ShareRecord], bool],
        check_leases: Callable[[], object],
        on_ready: Callable[[], None],
        on_admission: Callable[[], None],
        wall_clock: Callable[[], float] = time.time,
        observers: Sequence[WorkerObserver] = (),
    ) -> None:
        self._route = route
        options = route.options
        self.counts = Counts()
        self.changed = Signal()
        """Sent when a record is held, and when a slot has nothing more to do."""
        fields = {"group": route.group, "handler": route.name}
        self.summary = SummaryLog(log, f"{route.group}, handler {route.name}", fields=fields)
        watch = Watch(observers, route.name, route.group, self.summary)
        self.writes = BoundedWrites(publisher, clock)
        self.caller = Caller(
            route.call, route.middleware, options.most_at_once, watch, on_no_thread=self._on_no_thread
        )
        self._limits = limits
        self.queue = WorkQueue(
            deliver=self.deliver,
            max_held=options.max_held,
            max_span=self._max_span,
            lane_of=route.lane_of,
            careful_from=limits.last_safe_delivery,
            on_gone=self._on_gone,
            on_unreadable=self.on_unreadable,
        )
        self.admission = Admission(
            route,
            self.queue,
            self.counts,
            watch,
            limits,
            self.summary,
            clock=clock,
            on_change=on_admission,
        )
        self.keep_calls = KeepCalls(options.most_at_once, self.summary)
        copies = Copies(
            self.writes,
            self.keep_calls,
            limits,
            handler=route.name,
            dead_letters=options.dead_letters,
            oversized=options.oversized_dead_letters,
            tiers=options.tiers,
            log=self.summary,
            wall_clock=wall_clock,
        )
        runs = (
            None if options.tiers is None else MovedRuns(self.writes, options.tiers, self.summary, wall_clock)
        )
        self.long_runs = (
            LongRuns(runs, self.queue, self.counts, self.summary, self._max_span)
            if runs is not None and options.move_runs
            else None
        )
        self.settling = Settling(
            options,
            limits,
            queue=self.queue,
            copies=copies,
            counts=self.counts,
            summary=self.summary,
            can_renew=can_renew,
            release_unseen=release_unseen,
            clock=clock,
            wall_clock=wall_clock,
            watch=watch,
        )
        self.outcomes = Outcomes(
            route.name,
            options,
            limits,
            self.settling,
            self.writes,
            has_dead_letters=copies.has_dead_letters,
            runs=runs,
            counts=self.counts,
            summary=self.summary,
            wall_clock=wall_clock,
            check_leases=check_leases,
            on_failure=self._on_failure,
            on_success=self.admission.on_success,
            on_error=route.on_error,
            watch=watch,
        )
        self.processing = Processing(
            route,
            self.caller,
            self.queue,
            self.outcomes,
            self.long_runs,
            self.counts,
            self.summary,
            watch,
            deliver=self.delivery_of,
            on_ready=on_ready,
        )

    @property
    def _max_span(self) -> int:
        """How much of the window of a partition a record may pin."""
        return max(1, int(self._route.options.max_pinned * self._limits.window))

    def on_limits(self) -> None:
        """The limits of the group have changed."""
        self.queue.set_limits(max_span=self._max_span, careful_from=self._limits.last_safe_delivery)
        if self.long_runs is not None:
            self.long_runs.max_span = self._max_span

    async def close(self) -> None:
        """Call it at the end."""
        await self.caller.close()
        self.summary.close()

    def deliver(self, record: ShareRecord, context: RetryContext | None = None) -> Delivery:
        return Delivery(record, self._route.group, self._route.options.retry.attempts, context)

    def delivery_of(self, item: Item) -> Delivery:
        return item if isinstance(item, Delivery) else self.deliver(item)

    def on_unreadable(self, problem: Exception) -> None:
        self.summary.event(logging.ERROR, "records can't be read, and were released", problem)

    def _on_no_thread(self) -> None:
        cause = (
            "records wait, because threads still run functions that were cancelled: long functions should end when "
            "`delivery.is_cancelled` is true"
        )
        self.summary.event(logging.ERROR, cause)

    def _on_failure(self, delivery: Delivery, error: Exception) -> bool:
        is_attempt = self.admission.on_failure(delivery, error)
        self.changed.send()
        return is_attempt

    def _on_gone(self, item: Item) -> None:
        """Its lock was lost before it was processed."""
        self.settling.on_lost(self.delivery_of(item), KshareError("before it was its turn"))
        self.processing.leave_lane(item)
