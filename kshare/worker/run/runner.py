"""Runs one handler: consumers → pipeline → slots, until it is stopped. Looks after what is running.

intake       records from the topics            pipeline   queue, processing, outcomes
copy_intake  copies from the retry topics       admission  whether anything may start
slot_work    what a slot does                   draining   how it ends
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import anyio
from anyio.abc import TaskGroup

from kshare.client.consumer import ShareConsumer, source_of
from kshare.client.record import ShareRecord
from kshare.engine.notifier import Notifier
from kshare.errors import ConfigError
from kshare.net.clock import loop_clock
from kshare.worker.handlers.options import LONGEST_LEASE_S
from kshare.worker.handlers.routes import Route
from kshare.worker.host import RunningHandler
from kshare.worker.queue.held_records import TopicPartition
from kshare.worker.queue.work_queue import WorkQueue
from kshare.worker.rules.adaptive import Adaptive, AdaptiveLimit
from kshare.worker.rules.breaker import BreakerState
from kshare.worker.rules.limits import ShareLimits
from kshare.worker.run.draining import LAST_WRITES_S, Draining
from kshare.worker.run.early_release import EarlyRelease
from kshare.worker.run.intake import Intake
from kshare.worker.run.pipeline import Pipeline
from kshare.worker.run.retry_intake import MAX_COPIES, RetryIntake
from kshare.worker.run.runs_in_progress import runs_in_progress
from kshare.worker.run.slot_watch import SlotWatch
from kshare.worker.run.slot_work import SlotWork
from kshare.worker.run.slots import Slots
from kshare.worker.run.windows import GroupWindow, Reach
from kshare.worker.settle.outbound import Publisher
from kshare.worker.settle.refusals import note_refusals
from kshare.worker.settle.retry_group import retry_group
from kshare.worker.watch.counts import Counts
from kshare.worker.watch.health import HandlerHealth, Progress, handler_state
from kshare.worker.watch.observer import WorkerObserver
from kshare.worker.watch.status import HandlerStatus

log = logging.getLogger("kshare.worker")

_TICK_S = 0.1
"""How often running handlers and held records are looked after."""
_HAND_BACK_S = 1.0
"""How often to look for what pins too much during a long pause."""
_MAX_PROBED = 100
"""How many records to probe with at most, while the circuit breaker is open. Then they are tried again in turn."""
_FRESH_S = 0.3
"""How long a probe waits for a record that hasn't failed yet."""


class RunSettings(NamedTuple):
    """What all handlers of a run of a worker have in common."""

    bootstrap_servers: str | Iterable[str] | None
    connection: Mapping[str, Any]
    drain_timeout: float
    wall_clock: Callable[[], float]
    observers: Sequence[WorkerObserver]


class HandlerRunner:
    """`run` it in a task of the loop that created it; `stop` lets it end."""

    def __init__(
        self,
        route: Route,
        settings: RunSettings,
        publisher: Publisher,
        limits: ShareLimits,
        look_for_limits: Callable[[], Awaitable[None]],
    ) -> None:
        """`look_for_limits` brings `limits` up to date."""
        self.route = route
        self._options = options = route.options
        self._settings = settings
        self._limits = limits
        self._look_for_limits = look_for_limits
        self._clock = loop_clock()
        self._handler = RunningHandler(
            route,
            limits,
            self,
            clock=self._clock,
            wall_clock=settings.wall_clock,
            observers=settings.observers,
        )
        self._pipeline = Pipeline(self._handler, publisher)
        self._queue = self._pipeline.queue
        self._admission = self._pipeline.admission
        self._copy_consumers: list[ShareConsumer | None] = [None for _ in route.retry_topics()]
        """Those of the retry topics, for each delay, as soon as they are open."""
        self._lease_checks: list[Callable[[], None]] = []
        """Those of all consumers: they are called for each record."""
        self._adaptive = (
            AdaptiveLimit(options.concurrency) if isinstance(options.concurrency, Adaptive) else None
        )
        self._wants = Notifier()
        """Sent when the intake should look whether more records are needed."""
        self._fresh_by: float | None = None
        """Until when a probe waits for a record that hasn't failed yet."""
        self._hand_back_at = 0.0
        """When to look again what pins too much during a long pause."""
        self._stopping = anyio.Event()
        self._has_ended = False
        """Whether its consumers are being closed, or are closed."""
        self.is_stuck = False
        """Whether all slots are taken by calls that go on although they were cancelled."""
        self._progress = Progress()
        self._reach = Reach()

    # --- life

    async def run(self, *, on_started: Callable[[], None]) -> None:
        """Run until `stop`, then finish what is in hand. Cancellation releases everything at once."""
        first = self._options.most_at_once + 16
        try:
            async with self._new_consumer(self.route.group, self.route.topics, first) as consumer:
                self._consumer = consumer
                source = source_of(consumer)
                source.set_delivery_limit(self._limits.deliveries)
                self._lease_checks.append(source.check_leases)
                self._require_locks_that_last(consumer)
                try:
                    async with anyio.create_task_group() as tasks:
                        self._start(tasks)
                        on_started()
                        try:
                            await self._stopping.wait()
                            await self._drain()
                        finally:
                            # If this task is cancelled, copies that are being written are finished. If a scope is,
                            # whoever writes them ends as well.
                            self._pipeline.writes.end_in(LAST_WRITES_S)
                        tasks.cancel_scope.cancel()
                finally:
                    self._has_ended = True
        finally:
            await self._pipeline.close()

    def _start(self, tasks: TaskGroup) -> None:
        name = self.route.name
        self._handler.tasks = tasks
        work = self._work = SlotWork(self._pipeline, self._wants)
        self._slots = Slots(tasks, self._options.most_at_once, work.run)
        self._watch = SlotWatch(self._pipeline, self._slots)
        self._draining = Draining(self._pipeline, self._slots, self._watch, self._settings.drain_timeout)
        self._intake = Intake(self._pipeline, self._consumer, self._slots, self._wants)
        self._giving_back = EarlyRelease(self._pipeline, self._slots, lambda: self._consumers)
        tasks.start_soon(self._intake.run, tasks, name=f"kshare worker: feed {name}")
        tasks.start_soon(self._look_after, tasks, name=f"kshare worker: look after {name}")
        for number in range(len(self.route.retry_topics())):
            tasks.start_soon(self._take_copies, number, tasks, name=f"kshare worker: copies of {name}")

    async def _take_copies(self, number: int, tasks: TaskGroup) -> None:
        """Take copies from the retry topics of one delay."""
        topics = self.route.retry_topics()[number]
        async with self._new_consumer(retry_group(self.route.group), topics, MAX_COPIES) as consumer:
            self._copy_consumers[number] = consumer
            consumer.subscribe(self.route.retry_topics()[number])  # they may have changed meanwhile
            if self.is_stopping:
                consumer.pause()
            check_leases = source_of(consumer).check_leases
            self._lease_checks.append(check_leases)
            try:
                await RetryIntake(self._pipeline, consumer).run(tasks)
            finally:  # before it is closed
                self._copy_consumers[number] = None
                self._lease_checks.remove(check_leases)

    def stop(self) -> None:
        """Acquire nothing more, finish what is in hand, and end."""
        self._stopping.set()

    def abandon(self) -> None:
        """Before it is cancelled: what is in hand is given back at once."""
        self._draining.abandon()

    def subscribe(self, route: Route) -> None:
        """Replace the topics by those of this route. Its retry topics exist."""
        self.route = route
        if self._has_ended:
            return
        self._consumer.subscribe(route.topics)
        for topics, consumer in zip(route.retry_topics(), self._copy_consumers, strict=True):
            if consumer is not None:
                consumer.subscribe(topics)

    def on_limits(self) -> None:
        """The limits of its group have changed."""
        source_of(self._consumer).set_delivery_limit(self._limits.deliveries)

    def pinned(self) -> dict[TopicPartition, int]:
        """The first offset in each partition of its topics that is held, or whose run could be moved."""
        found = self._queue.held_back.first_offsets()
        if self._options.move_runs:
            for delivery in [
                slot.delivery
                for slot in self._slots.all
                if slot.delivery is not None and not slot.is_given_up
            ]:
                where, offset = (delivery.record.topic, delivery.record.partition), delivery.record.offset
                found[where] = min(found.get(where, offset), offset)
        return {where: offset for where, offset in found.items() if where[0] in self.route.topics}

    def on_windows(self, windows: Mapping[TopicPartition, GroupWindow]) -> None:
        """What brokers know of the windows that it pins."""
        is_idle = self._admission.may_start and not self._queue.has_ready and not self.is_stopping
        for where, last in self._reach.look(
            windows,
            limit=self._limits.window,
            newest=self._queue.held_back.newest,
            is_idle=is_idle and self._slots.busy < self._slots.most,
        ).items():
            self._queue.held_back.saw(where, last)
        self._handler.changed.send()

    def pause(self, seconds: float) -> None:
        """Acquire and start nothing for some time."""
        if self._has_ended:
            return
        summary = self._handler.summary
        if seconds:
            summary.event(logging.INFO, "paused", f"for {seconds:g} s")
        else:
            summary.event(logging.INFO, "no longer paused")
        self._admission.pause(seconds)
        self._handler.changed.send()

    def give_way_to(self, others: Sequence[HandlerRunner]) -> None:
        """Tell it the handlers with a higher priority."""
        self._admission.give_way_to([other._admission for other in others])

    # --- `Host`: what its parts ask

    @property
    def can_renew(self) -> bool:
        return self._consumer.can_renew

    def release_unseen(self, record: ShareRecord) -> bool:
        return source_of(self._consumer).release_unseen(record)

    async def look_for_limits(self) -> None:
        await self._look_for_limits()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    # --- what it does

    @property
    def counts(self) -> Counts:
        return self._handler.counts

    @property
    def queue(self) -> WorkQueue:
        return self._queue

    @property
    def breaker_state(self) -> BreakerState:
        return self._admission.breaker_state

    @property
    def running(self) -> int:
        """How many slots are processing something."""
        return self._slots.busy

    def health(self) -> HandlerHealth:
        source = source_of(self._consumer)
        running = self._slots.running
        return HandlerHealth(
            handler=self.route.name,
            group=self.route.group,
            topics=self.route.topics,
            state=handler_state(
                is_stopping=self.is_stopping,
                is_paused=self._admission.is_paused,
                breaker=self.breaker_state,
            ),
            breaker=self.breaker_state,
            running=running,
            ready=max(0, source.undecided() - running - self._queue.unavailable),
            held=self._queue.held,
            counts=replace(self.counts),
            last_progress=self._progress.at,
            unheard_s=source.unheard_s(),
        )

    def status(self) -> HandlerStatus:
        runs, run_count = runs_in_progress(self._slots.all, self._clock(), self.route.delivery_of)
        return HandlerStatus(
            health=self.health(),
            concurrency=self._slots.most,
            attempts=self._options.retry.attempts,
            time_limit=self._options.time_limit,
            lock_s=self._limits.lock_s,
            runs=runs,
            run_count=run_count,
        )

    # --- start and end

    def _new_consumer(self, group: str, topics: tuple[str, ...], records: int) -> ShareConsumer:
        return ShareConsumer(
            self._settings.bootstrap_servers,
            group=group,
            topics=topics,
            acknowledgement="explicit",
            max_records=records,
            max_lease_seconds=LONGEST_LEASE_S,
            on_settled=partial(note_refusals, self._handler),
            **self._settings.connection,
        )

    def _require_locks_that_last(self, consumer: ShareConsumer) -> None:
        """Without renewal, nothing may take longer than the lock."""
        if consumer.can_renew:
            return
        lock_s, options = self._limits.lock_s, self._options
        longest = options.retry.longest_delay()
        if longest >= lock_s and options.tiers is None:
            raise ConfigError(
                f"handler {self.route.name}: a delay of {longest:g} s can't be held, because these brokers can't renew "
                f"locks, which last {lock_s:g} s (share.record.lock.duration.ms of group {self.route.group}): allow "
                "retry_topics, shorten the delays, or upgrade to Kafka 4.2"
            )
        if options.move_runs:
            log.warning(
                "handler %s: move_runs has no effect, because these brokers can't renew locks",
                self.route.name,
            )
        if options.time_limit > lock_s:
            log.warning(
                "handler %s: time_limit is %g s, but these brokers can't renew locks, which last %g s "
                "(share.record.lock.duration.ms of group %s): a handler that takes longer loses its record",
                self.route.name,
                options.time_limit,
                lock_s,
                self.route.group,
            )

    async def _drain(self) -> None:
        """Acquire nothing more, and finish what was acquired."""
        for consumer in self._consumers:
            consumer.pause()
        self._wants.send()
        await self._draining.run()

    @property
    def _consumers(self) -> list[ShareConsumer]:
        return [self._consumer, *(consumer for consumer in self._copy_consumers if consumer is not None)]

    def check_leases(self) -> None:
        for check_leases in self._lease_checks:
            check_leases()

    def is_idle(self) -> bool:
        """Whether everything that may be processed now is done."""
        # While a handler with a higher priority is busy, this one waits; so it isn't done.
        admission = self._admission
        has_work = admission.has_to_try if admission.is_stopped else self._queue.has_ready
        is_busy = self._slots.busy or self._pipeline.settling
        return all(consumer.is_drained for consumer in self._consumers) and not has_work and not is_busy

    # --- looking after

    def _note_stuck(self) -> None:
        """While nothing can be started, other members shall have what comes."""
        if self._watch.is_stuck is not self.is_stuck:
            self.is_stuck = not self.is_stuck
            self.on_admission()

    def on_admission(self) -> None:
        """The handler stops, or goes on."""
        if self._has_ended:
            return
        if self._admission.is_stopped or self.is_stuck or self.is_stopping:
            self._work.halt()
            self._consumer.pause()
        else:
            self._consumer.resume()
        self._wants.send()
        self._handler.changed.send()
        self.wake()

    def wake(self) -> None:
        """Let a slot start, if it may."""
        if self._admission.may_start:
            if self._queue.has_ready:
                self._wake_slot()
        elif self._admission.has_to_try:
            self._wake_slot()
        elif self._admission.is_probe_due and not self._waits_for_fresh() and self._queue.has_ready:
            self._fresh_by = None
            self._wake_slot()

    def _waits_for_fresh(self) -> bool:
        """Whether the probe waits for a record that hasn't failed. One that has may be to blame itself."""
        queue = self._queue
        if queue.has_fresh or queue.unsettled >= _MAX_PROBED or self.is_stopping:
            return False
        self._intake.get_fresh()
        now = self._clock()
        if self._fresh_by is None:
            self._fresh_by = now + _FRESH_S
        return now < self._fresh_by

    def _wake_slot(self) -> None:
        if not self._work.wake_collector():
            self._slots.wake_one()

    async def _look_after(self, tasks: TaskGroup) -> None:
        """Bring back what is due, cancel what has no lock or takes too long, and keep to the budget."""
        pipeline, queue = self._pipeline, self._queue
        while True:
            changed = self._handler.changed.next()
            now = self._clock()
            self._admission.end_pause(now)
            if self._adaptive is not None:
                self._adaptive.observe(now, self.counts.done, self.counts.failed, self._slots.busy)
                self._slots.most = self._adaptive.limit
            self._progress.note(self.counts, self._handler.wall_clock())
            queue.bring_due(now)
            self.wake()
            self._watch.look()
            self._note_stuck()
            await self._move_long_runs(tasks)
            for delivery in queue.held_back.over_budget(self._options.max_held, self._handler.max_span):
                pipeline.start_settling(pipeline.executor.make_way, delivery)
            if not self._consumer.can_renew:
                if not self.is_stopping:
                    self._giving_back.look(now, tasks)
            elif (self._admission.hands_back or self.is_stuck) and now >= self._hand_back_at:
                going = queue.take_pinning(pipeline.executor.may_hand_back, all_of_them=self.is_stuck)
                self._hand_back_at = now + (0 if going else _HAND_BACK_S)
                for delivery in going:
                    pipeline.start_settling(pipeline.executor.hand_back, delivery)
            self._intake.make_room()
            self._handler.summary.log_due()
            self._wants.send()
            with anyio.move_on_after(self._quiet_s(self._clock())):
                await changed.wait()

    def _quiet_s(self, now: float) -> float:
        """For how long nothing has to be looked after, unless something changes."""
        if not self._admission.may_start or self._slots.busy:
            return _TICK_S
        due = self._queue.next_due
        return 1.0 if due is None else min(1.0, max(0.001, due - now))

    async def _move_long_runs(self, tasks: TaskGroup) -> None:
        """Move what pins too much, while its handler continues."""
        runs = self._pipeline.runs
        if runs is None or not (self._options.move_runs and self._consumer.can_renew):
            return
        for slot in self._slots.calls:  # in no other slot: what is just becoming a copy would become two
            if slot.delivery is not None and runs.is_in_the_way(slot.delivery):
                await runs.start_moving(slot.delivery, tasks)
