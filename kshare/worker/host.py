"""A running handler as its parts see it: what they have in common, and what they need of the whole."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from anyio.abc import TaskGroup

from kshare.client.record import ShareRecord
from kshare.engine.notifier import Notifier
from kshare.summary_log import SummaryLog
from kshare.worker.handlers.routes import Route
from kshare.worker.records.delivery import Delivery
from kshare.worker.rules.limits import ShareLimits
from kshare.worker.rules.window import max_span
from kshare.worker.watch.counts import Counts
from kshare.worker.watch.log_context import log_fields
from kshare.worker.watch.observer import WorkerObserver
from kshare.worker.watch.watching import Watch

log = logging.getLogger("kshare.worker")


class Host(Protocol):
    """Where records come from, and whether the handler goes on."""

    @property
    def can_renew(self) -> bool:
        """Whether locks can be renewed."""
        ...

    @property
    def is_stopping(self) -> bool:
        """Whether it acquires nothing more: batches aren't waited for any longer."""
        ...

    @property
    def is_stuck(self) -> bool:
        """Whether no slot can start anything."""
        ...

    def release_unseen(self, record: ShareRecord) -> bool:
        """Release a record that nobody has tried. Returns False if its lock was lost."""
        ...

    def check_leases(self) -> None:
        """Look for locks that have expired."""
        ...

    def is_idle(self) -> bool:
        """Whether everything that may be processed now is done."""
        ...

    def wake(self) -> None:
        """Let a slot start, if it may."""
        ...

    def on_admission(self) -> None:
        """The handler stops, or goes on."""
        ...

    async def look_for_limits(self) -> None:
        """Bring the limits of its group up to date."""
        ...


class RunningHandler:
    """What all parts of one have in common."""

    def __init__(
        self,
        route: Route,
        limits: ShareLimits,
        host: Host,
        *,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        observers: Sequence[WorkerObserver] = (),
    ) -> None:
        """`clock` is the event loop's. `wall_clock`: the time of day, in seconds since 1970; copies are due at one."""
        self.route = route
        self.options = route.options
        self.limits = limits
        self.host = host
        self.clock = clock
        self.wall_clock = wall_clock
        self.counts = Counts()
        fields = {"group": route.group, "handler": route.name}
        self.summary = SummaryLog(log, f"{route.group}, handler {route.name}", fields=fields)
        self.watch = Watch(observers, route.name, route.group, self.summary, clock)
        self.tasks: TaskGroup | None = None
        """While it runs: where its parts start tasks."""
        self.changed = Notifier()
        """Sent when a record is held, when a run has failed, and when a slot has nothing more to do."""

    def log(self, level: int, cause: str, delivery: Delivery, detail: object = None) -> None:
        """Events with the same cause are one line now and then."""
        told = repr(delivery) if detail is None else f"{delivery!r}: {detail}"
        self.summary.event(level, cause, told, log_fields(delivery))

    def log_record(self, level: int, cause: str, delivery: Delivery, detail: str = "") -> None:
        """Records with the same cause are one line now and then, with their offsets."""
        topic, partition, offset = delivery.topic, delivery.partition, delivery.offset
        self.summary.records(level, cause, topic, partition, 1, offset, offset, detail, log_fields(delivery))

    def now_ms(self) -> int:
        """The time of day, in milliseconds."""
        return round(self.wall_clock() * 1000)

    @property
    def max_span(self) -> int:
        """How much of the window of a partition a record may pin."""
        return max_span(self.options.max_pinned, self.limits.window)
