"""Runs one handler: takes records from its consumers, and processes them in slots until it is stopped.

Which record is next, `work_queue` decides; what becomes of it afterwards, `outcomes`; whether anything may start at
all, `breaker` and `rate_limit`. This holds them together and looks after what is running.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from anyio.lowlevel import checkpoint

import kshare.fast.coarse_clock as coarse_clock
from kshare.client.consumer import ShareConsumer, source_of
from kshare.client.record import BatchIterator, ShareRecord, lost_spans_of
from kshare.engine.signals import Signal
from kshare.errors import AcknowledgeError, ConfigError, KshareError
from kshare.net.clock import loop_clock
from kshare.summary_log import SummaryLog
from kshare.worker.adaptive import Adaptive, AdaptiveLimit
from kshare.worker.breaker import BreakerMachine, BreakerState
from kshare.worker.burst import EMPTY, SUSPENDED, Burst
from kshare.worker.calling import Caller
from kshare.worker.copies import Copies
from kshare.worker.counts import Counts
from kshare.worker.delivery import Delivery
from kshare.worker.group_limits import ShareLimits
from kshare.worker.headers import RetryContext, read_retry_context
from kshare.worker.health import HandlerHealth, Progress, handler_state
from kshare.worker.log_context import log_fields
from kshare.worker.moved_runs import MovedRuns
from kshare.worker.observer import RecordOutcome, WorkerObserver
from kshare.worker.options import LONGEST_LEASE_S
from kshare.worker.outbound import Publisher
from kshare.worker.outcomes import Outcomes
from kshare.worker.rate_limit import TokenBucket
from kshare.worker.retry_group import retry_group
from kshare.worker.routes import Route
from kshare.worker.slots import Slot, Slots
from kshare.worker.watching import Watch
from kshare.worker.work_queue import Item, WorkQueue, record_of

log = logging.getLogger("kshare.worker")

_BURST_MS = 5
"""After this time, a slot lets other tasks run, however fast the handler is."""
_TICK_S = 0.1
"""How often running handlers and held records are looked after."""
_HORIZON_S = 0.25
"""How much work to have ready, in seconds."""
_MAX_PROBED = 100
"""How many records to probe with at most, while the circuit breaker is open. Then they are tried again in turn."""
_CANCEL_GRACE_S = 5.0
"""How long cancelled handlers may take to end."""
_MAX_COPIES = 500
"""How many copies of each delay are acquired at most before they are due."""


class HandlerRunner:
    """`run` it in a task; `stop` lets it end."""

    def __init__(
        self,
        route: Route,
        connection: dict[str, Any],
        publisher: Publisher,
        limits: ShareLimits,
        *,
        drain_timeout: float = 30.0,
        wall_clock: Callable[[], float] = time.time,
        observers: Sequence[WorkerObserver] = (),
    ) -> None:
        """`wall_clock`: the time of day, in seconds since 1970. Copies are due at a time of day."""
        self.route = route
        self.counts = Counts()
        self._options = options = route.options
        self._limits = limits
        self._connection = connection
        self._drain_timeout = drain_timeout
        self._wall_clock = wall_clock
        fields = {"group": route.group, "handler": route.name}
        self._summary = SummaryLog(log, f"{route.group}, handler {route.name}", fields=fields)
        self._watch = Watch(observers, route.name, route.group, self._summary)
        self._caller = Caller(route.call, route.middleware, options.most_at_once, self._watch)
        self._is_plain = self._caller.is_plain and not (route.lane_of or options.only or options.move_runs)
        self._breaker = BreakerMachine(options.breaker) if options.breaker else None
        self._bucket = TokenBucket(options.rate_limit) if options.rate_limit else None
        self._clock: Callable[[], float] = anyio.current_time
        self._sources: list[ShareConsumer] = []
        """The consumers of the topics and of the retry topics."""
        self._paused_until = 0.0
        self._higher: Sequence[HandlerRunner] = ()
        self._adaptive = (
            AdaptiveLimit(options.concurrency) if isinstance(options.concurrency, Adaptive) else None
        )
        self._wants = Signal()
        """Sent when the feeder should look whether more records are wanted."""
        self._changed = Signal()
        """Sent when a record is held, and when a slot has nothing more to do."""
        self._stopping = anyio.Event()
        self._wants_fresh = False
        """While the breaker is open: a record is to be acquired, to probe with."""
        self._is_collecting = False
        self._allowed_for = 0
        """How many records that can't be processed now the consumer has room for, besides others."""
        self._progress = Progress()
        self._rate = 0.0
        self._counted = (0.0, 0)
        copies = Copies(
            publisher,
            limits,
            handler=route.name,
            dead_letters=options.dead_letters,
            tiers=options.tiers,
            log=self._summary,
            wall_clock=wall_clock,
        )
        self._runs = (
            None if options.tiers is None else MovedRuns(publisher, options.tiers, self._summary, wall_clock)
        )
        self._keeping: dict[Delivery, anyio.CancelScope] = {}
        """Writes the copies of runs that were moved."""
        self._max_span = max(1, int(options.max_pinned * limits.window))
        self.queue = WorkQueue(
            deliver=self._deliver,
            max_held=options.max_held,
            max_span=self._max_span,
            lane_of=route.lane_of,
            careful_from=min(limits.deliveries, limits.last_safe_delivery),
            on_gone=self._on_gone,
            on_unreadable=self._on_unreadable,
        )
        self._outcomes = Outcomes(
            route.name,
            options,
            limits,
            queue=self.queue,
            copies=copies,
            runs=self._runs,
            counts=self.counts,
            summary=self._summary,
            can_renew=lambda: self._source.can_renew,
            clock=lambda: self._clock(),
            wall_clock=wall_clock,
            on_failure=self._on_failure,
            on_success=self._on_success,
            on_error=route.on_error,
            watch=self._watch,
        )

    # --- life

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run until `stop`, then finish what is in hand. Cancellation releases everything at once."""
        self._clock = loop_clock()
        first = self._options.most_at_once + 16
        try:
            async with self._consumer(self.route.group, self.route.topics, first) as consumer:
                self._source = consumer
                self._sources.append(consumer)
                self._check_leases = source_of(consumer).burst_size
                self._require_locks_that_last(consumer)
                async with anyio.create_task_group() as tasks:
                    self._start(tasks)
                    task_status.started()
                    await self._stopping.wait()
                    await self._drain()
                    tasks.cancel_scope.cancel()
        finally:
            self._summary.close()

    def _start(self, tasks: TaskGroup) -> None:
        work = self._work_in_batches if self.route.is_batch else self._work
        self._tasks = tasks
        self._slots = Slots(tasks, self._options.most_at_once, partial(self._cancellable, work))
        tasks.start_soon(self._feed, name=f"kshare worker: feed {self.route.name}")
        tasks.start_soon(self._look_after, name=f"kshare worker: look after {self.route.name}")
        for topics in self.route.retry_topics():
            tasks.start_soon(self._feed_copies, topics, name=f"kshare worker: feed {topics[0]}")

    def stop(self) -> None:
        """Acquire nothing more, finish what is in hand, and end."""
        self._stopping.set()

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Replace the topics."""
        self._source.subscribe(topics)

    def pause(self, seconds: float) -> None:
        """Acquire and start nothing for some time."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)
        self._source.pause()
        self._wants.send()
        self._changed.send()

    @property
    def is_paused(self) -> bool:
        return self._paused_until > 0

    @property
    def breaker_state(self) -> BreakerState:
        return self._breaker.state if self._breaker is not None else BreakerState.CLOSED

    @property
    def running(self) -> int:
        """How many slots are processing something."""
        return self._slots.busy

    def health(self) -> HandlerHealth:
        source = source_of(self._source)
        running = self._slots.running
        return HandlerHealth(
            handler=self.route.name,
            group=self.route.group,
            topics=self.route.topics,
            state=handler_state(
                is_stopping=self._stopping.is_set(), is_paused=self.is_paused, breaker=self.breaker_state
            ),
            breaker=self.breaker_state,
            running=running,
            ready=max(0, source.undecided() - running - self.queue.unavailable),
            held=self.queue.held,
            counts=replace(self.counts),
            last_progress=self._progress.at,
            unheard_s=source.unheard_s(),
        )

    def _consumer(self, group: str, topics: tuple[str, ...], records: int) -> ShareConsumer:
        return ShareConsumer(
            group=group,
            topics=topics,
            acknowledgement="explicit",
            max_records=records,
            max_lease_seconds=LONGEST_LEASE_S,
            **self._connection,
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
        """Finish what was acquired, until the deadline; then cancel, and hand back the rest."""
        for source in self._sources:
            source.pause()
        self._wants.send()
        with anyio.move_on_after(self._drain_timeout):
            while not self._is_idle:
                changed = self._changed.next()
                self._wake()
                with anyio.move_on_after(_TICK_S):
                    await changed.wait()
        for slot in self._slots.all:
            if slot.current is not None:
                slot.cancel()
        with anyio.move_on_after(_CANCEL_GRACE_S):
            while self._slots.busy:  # noqa: ASYNC110  once, at the end
                await anyio.sleep(0.01)
        for delivery, due_at in self.queue.take_all():
            await self._outcomes.hand_back(delivery, max(0.0, due_at - self._clock()))

    @property
    def _is_idle(self) -> bool:
        """Whether everything that may be processed now is done."""
        has_work = self.queue.has_ready and self._may_start
        return all(one.is_drained for one in self._sources) and not has_work and not self._slots.busy

    # --- in

    async def _feed(self) -> None:
        while True:
            while True:
                wanted = self._wants.next()
                if self._wants_fresh or (self.queue.batches < 2 and self._may_start):
                    break
                await wanted.wait()
            if not self._wants_fresh:
                self._adjust()
            batch = await self._source.next_batch()
            if self._options.tiers is not None and batch.delivery_count >= self._limits.last_safe_delivery:
                self._move_away([self._deliver(record) for record in self.queue.read(batch)])
            else:
                self.queue.take_in(batch)
            if self._wants_fresh:
                self._wants_fresh = False
                if not self._may_start:
                    self._source.pause()
            self._wake()

    def _adjust(self) -> None:
        """Let the consumer hold what is being processed, what is held back, and as much again as is done shortly."""
        now, done = self._clock(), self.counts.done
        at, before = self._counted
        if now - at >= _HORIZON_S:
            self._rate = (done - before) / (now - at)
            self._counted = (now, done)
        wanted = max(self._slots.most, int(self._rate * _HORIZON_S)) + self.route.surplus
        self._allowed_for = self.queue.unavailable
        self._source.set_max_records(min(1_000_000, self._allowed_for + wanted))

    async def _feed_copies(self, topics: tuple[str, ...]) -> None:
        """Hold copies until they are due. They pin nothing, since all of a retry topic wait equally long."""
        async with self._consumer(retry_group(self.route.group), topics, _MAX_COPIES) as consumer:
            self._sources.append(consumer)
            if self._stopping.is_set():
                consumer.pause()
            while True:
                batch = await consumer.next_batch()
                now_ms, now = self._wall_clock() * 1000, self._clock()
                for record in batch:
                    context = read_retry_context(record.headers)
                    if context is not None and (context.is_over or context.group != self.route.group):
                        record.accept()
                        continue
                    delivery = self._deliver(record, context)
                    wait_s = (context.due_ms - now_ms) / 1000 if context else 0.0
                    if record.delivery_count >= self._limits.last_safe_delivery:
                        self._move_away([delivery])
                        continue
                    if not consumer.can_renew:
                        wait_s = min(wait_s, self._limits.holdable_s)
                    self.queue.hold_copy(delivery, now + max(0.0, wait_s))
                self._changed.send()

    def _move_away(self, deliveries: list[Delivery]) -> None:
        """Move records that were often delivered: all at once, and without waiting for a slot.

        If a record kills its process soon after each start, others have only that time to get away.
        """
        for delivery in deliveries:
            self._tasks.start_soon(self._move_one, delivery)

    async def _move_one(self, delivery: Delivery) -> None:
        try:
            may_process = await self._outcomes.may_process(delivery)
        except AcknowledgeError as problem:
            self._outcomes.on_lost(delivery, problem)
        else:
            assert not may_process, "it was delivered too often"

    def _deliver(self, record: ShareRecord, context: RetryContext | None = None) -> Delivery:
        return Delivery(record, self.route.group, self._options.retry.attempts, context)

    def _delivery_of(self, item: Item) -> Delivery:
        return item if isinstance(item, Delivery) else self._deliver(item)

    # --- slots

    async def _cancellable(self, work: Callable[[Slot], Awaitable[None]], slot: Slot) -> None:
        while True:
            with anyio.CancelScope() as slot.scope:
                await work(slot)
            for delivery in self._deliveries_of(slot):
                await self._moved(delivery)
                await self._outcomes.on_cancelled(delivery)
                await self._finish(delivery)
            if self._breaker is not None:
                self._breaker.on_no_result(self._clock())
            self._clear(slot)

    async def _work(self, slot: Slot) -> None:
        """Process records, one after another."""
        slots, queue = self._slots, self.queue
        burst = Burst(self._caller.plain()) if self._is_plain else None
        until = 0
        while True:
            if slots.has_too_many_awake:
                await slots.sleep(slot)
            if coarse_clock.coarse_ms() > until:
                await checkpoint()
                self._check_leases()
                until = coarse_clock.coarse_ms() + _BURST_MS
            if burst is not None and self._is_unrestricted and (records := queue.first_batch()) is not None:
                await self._process_plainly(slot, burst, records, until)
                continue
            item = queue.next() if self._is_unrestricted else await self._next_if_allowed(slot)
            if item is None:
                self._changed.send()
                await slots.sleep(slot)
                until = coarse_clock.coarse_ms() + _BURST_MS
                continue
            self._wake_another()
            await self._process(slot, self._delivery_of(item))
            self._clear(slot)

    async def _process_plainly(self, slot: Slot, burst: Burst, records: BatchIterator, until: int) -> None:
        """Process records of a batch until the handler suspends or fails, and in that case what has become of it."""
        try:
            ended = burst.run(records, until)
            if ended == EMPTY:
                self.queue.drop_batch(records)
                self._wants.send()
            elif ended == SUSPENDED:
                record = slot.item = burst.record
                assert record is not None, "suspended"
                self._wake_another()
                await burst.suspended()
                await self._unless_cancelled(slot)
                record.accept()
                self.counts.done += 1
        except Exception as error:
            record = burst.record
            if record is None:
                self._on_unreadable(error)
            else:
                slot.item = record
                await self._failed(slot, self._deliver(record), error)
        except BaseException:
            slot.item = burst.record
            await self._ended(slot)
        finally:
            self.counts.done += burst.done
            burst.done = 0
        self._clear(slot)

    def _wake_another(self) -> None:
        """This slot is about to wait for its handler, so another one should go on."""
        if self._slots.has_free and self.queue.has_ready:
            self._slots.wake_one()

    async def _unless_cancelled(self, slot: Slot) -> None:
        """A handler that was cancelled may return all the same: its record isn't accepted."""
        if slot.is_cancelled or anyio.current_effective_deadline() == float("-inf"):
            await checkpoint()

    @property
    def _is_unrestricted(self) -> bool:
        return self._bucket is None and self._may_start

    @property
    def _may_start(self) -> bool:
        if self._paused_until or not (self._breaker is None or self._breaker.is_closed):
            return False
        return not self._higher or not any(one.outranks(self._options.priority) for one in self._higher)

    async def _next_if_allowed(self, slot: Slot) -> Item | None:
        """The next item, while a rate limit, a breaker or a pause may forbid to start anything."""
        if self._paused_until or not (self._may_start or self._is_probe_due):
            return None
        if self._bucket is not None:
            while not self._bucket.take(self._clock()):  # noqa: ASYNC110  tokens come with time
                await anyio.sleep(self._bucket.wait_s)
        if self._breaker is not None and not self._breaker.may_start(self._clock()):
            item = None
        else:
            item = self.queue.next() if self._may_start else self.queue.next_for_probe()
            if item is None and self._breaker is not None:
                self._breaker.on_no_result(self._clock())
        if item is None and self._bucket is not None:
            self._bucket.give_back()
        return item

    async def _process(self, slot: Slot, delivery: Delivery) -> None:
        """Process a record, with everything that a plain call doesn't need."""
        slot.item = slot.delivery = delivery
        only = self._options.only
        try:
            if await self._outcomes.may_process(delivery):
                if only is None or only(delivery):
                    await self._caller.one(delivery)
                    await self._unless_cancelled(slot)
                    await self._moved(delivery)
                    await self._outcomes.on_returned(delivery)
                else:
                    delivery.accept()
                    self.counts.filtered += 1
                    self._watch.settled(RecordOutcome.FILTERED, delivery)
        except Exception as error:
            await self._failed(slot, delivery, error)
        except BaseException:
            await self._ended(slot)
        await self._finish(delivery)

    async def _work_in_batches(self, slot: Slot) -> None:
        """Collect records, and process them together. One slot at a time collects."""
        while True:
            if not self._is_collecting and await self._collect(slot):
                self._wake()
                await self._process_batch(slot)
                self._clear(slot)
            else:
                self._clear(slot)
                self._changed.send()
                await self._slots.sleep(slot)

    async def _collect(self, slot: Slot) -> bool:
        """Fill `slot.batch`. Returns False if there is nothing to process."""
        options, queue = self._options, self.queue
        deliveries: list[Delivery] = []
        slot.batch = deliveries
        self._is_collecting = True
        try:
            deadline = None
            while len(deliveries) < options.batch_size:
                item = queue.next() if self._is_unrestricted else await self._next_if_allowed(slot)
                if item is not None:
                    deliveries.append(self._delivery_of(item))
                    deadline = deadline or self._clock() + options.batch_wait
                elif deadline is None or self._clock() >= deadline or self._stopping.is_set():
                    break
                else:
                    await self._slots.sleep(slot, deadline - self._clock())
        finally:
            self._is_collecting = False
        return bool(deliveries)

    async def _process_batch(self, slot: Slot) -> None:
        whole = slot.batch
        assert whole is not None, "collected before"
        for delivery in [*whole]:
            if not await self._may_join(slot, delivery):
                whole.remove(delivery)
                self._leave_lane(delivery)
        try:
            if whole:
                await self._caller.batch(whole)
                await self._unless_cancelled(slot)
            for delivery in whole:
                await self._outcomes.on_returned(delivery)
        except Exception as error:
            for delivery in whole:
                await self._failed(slot, delivery, error)
        except BaseException:
            await self._ended(slot)
        for delivery in whole:
            self._leave_lane(delivery)

    async def _may_join(self, slot: Slot, delivery: Delivery) -> bool:
        """Whether the handler gets it with the batch. If not, it was settled, or is held."""
        only = self._options.only
        try:
            if not await self._outcomes.may_process(delivery):
                return False
            if only is not None and not only(delivery):
                delivery.accept()
                self.counts.filtered += 1
                self._watch.settled(RecordOutcome.FILTERED, delivery)
                return False
            self._caller.decode(delivery)
        except Exception as error:
            await self._failed(slot, delivery, error)
            return False
        return True

    def _clear(self, slot: Slot) -> None:
        slot.item = slot.delivery = slot.batch = None

    # --- long runs

    async def _move_run(self, delivery: Delivery, *, task_status: TaskStatus[None]) -> None:
        """Move a record out of the way, and write further copies of it until its handler has ended."""
        assert self._runs is not None, "there are retry topics"
        delivery.moving = anyio.Event()
        task_status.started()
        try:
            is_moved = await self._runs.move(delivery)
        finally:
            delivery.moving.set()
        if is_moved:
            self.counts.moved += 1
            cause = "take long, and were moved out of the way"
            self._summary.event(logging.INFO, cause, repr(delivery), log_fields(delivery))
            with anyio.CancelScope() as scope:
                self._keeping[delivery] = scope
                await self._runs.keep(delivery)

    async def _moved(self, delivery: Delivery) -> None:
        """Wait while the record is being moved: what becomes of it depends on that."""
        if delivery.moving is not None:
            with anyio.CancelScope(shield=True):
                await delivery.moving.wait()

    async def _finish(self, delivery: Delivery) -> None:
        """What became of it is decided, and written where necessary."""
        scope = self._keeping.pop(delivery, None)
        if scope is not None:
            scope.cancel()
        await self._outcomes.finish(delivery)
        self._leave_lane(delivery)

    # --- results

    async def _failed(self, slot: Slot, delivery: Delivery, error: Exception) -> None:
        """The handler raised."""
        await self._unless_cancelled(slot)  # it may have raised because of that
        await self._moved(delivery)
        await self._outcomes.on_exception(delivery, error)

    async def _ended(self, slot: Slot) -> None:
        """Called while a BaseException is handled. Raises it again, unless the handler made a cancellation up."""
        if not _is_stray_cancellation(slot):
            raise
        for delivery in self._deliveries_of(slot):
            await self._outcomes.on_cancelled(delivery)

    def _deliveries_of(self, slot: Slot) -> list[Delivery]:
        current = slot.current
        if current is None or isinstance(current, list):
            return current or []
        return [self._delivery_of(current)]

    def _on_failure(self, delivery: Delivery, error: Exception) -> bool:
        """Tell the breaker. Returns whether the failure counts as an attempt of its record."""
        if self._breaker is None:
            return True
        was_closed = self._breaker.is_closed
        is_attempt = self._breaker.on_failure(self._clock(), self.counts.done, is_first=delivery.attempt == 1)
        delivery.probes = 0 if self._breaker.is_closed else delivery.probes + 1
        if was_closed and not self._breaker.is_closed:
            self._source.pause()
            self._watch.breaker(self._breaker.state)
            log.warning(
                "group %s, handler %s: most runs fail (the last one with %s), so nothing is acquired; a record "
                "is tried every %g s",
                self.route.group,
                self.route.name,
                type(error).__qualname__,
                self._breaker.settings.probe_after,
            )
        self._changed.send()
        return is_attempt

    def _on_success(self) -> None:
        if self._breaker is None or self._breaker.is_closed:
            return
        self._breaker.on_success(self.counts.done)
        if self._breaker.is_closed:
            self._watch.breaker(self._breaker.state)
            log.warning(
                "group %s, handler %s: a record was processed again, so the worker goes on",
                self.route.group,
                self.route.name,
            )
            self._go_on()

    def _go_on(self) -> None:
        if self._may_start and not self._stopping.is_set():
            self._source.resume()
        self._wants.send()
        self._wake()

    def _on_gone(self, item: Item) -> None:
        """Its lock was lost before it was processed."""
        self._outcomes.on_lost(self._delivery_of(item), KshareError("before it was its turn"))
        self._leave_lane(item)

    def _on_unreadable(self, problem: Exception) -> None:
        self._summary.event(logging.ERROR, "records can't be read, and were released", problem)

    def _leave_lane(self, item: Item) -> None:
        if self.queue.leave(item):
            self._wake()

    # --- looking after

    def outranks(self, priority: int) -> bool:
        """Whether handlers of this priority have to wait for this one."""
        return self._options.priority > priority and self.queue.has_ready and self._may_start

    def give_way_to(self, others: Sequence[HandlerRunner]) -> None:
        """Tell it the handlers with a higher priority."""
        self._higher = others

    async def _look_after(self) -> None:
        """Bring back what is due, cancel what has no lock or takes too long, and keep to the budget."""
        while True:
            changed = self._changed.next()
            now = self._clock()
            if self._paused_until and now >= self._paused_until:
                self._paused_until = 0.0
                self._go_on()
            if self._adaptive is not None:
                self._adaptive.observe(now, self.counts.done, self.counts.failed, self._slots.busy)
                self._slots.most = self._adaptive.limit
            self._progress.note(self.counts, time.time())
            self.queue.bring_due(now)
            self._wake()
            self._watch_slots(now)
            await self._move_long_runs()
            for delivery in self.queue.over_budget():
                await self._outcomes.make_way(delivery)
                self._leave_lane(delivery)
            if self._may_start and not self._wants_fresh and self.queue.unavailable > self._allowed_for:
                self._adjust()  # the feeder may be waiting for records that there is no room for
            self._summary.log_due()
            self._wants.send()
            with anyio.move_on_after(self._quiet_s(self._clock())):
                await changed.wait()

    def _wake(self) -> None:
        """Let a slot start, if it may."""
        if self._may_start:
            if self.queue.has_ready:
                self._slots.wake_one()
        elif self._is_probe_due:
            if not self.queue.has_fresh and self.queue.unsettled < _MAX_PROBED:
                self._get_fresh()
            if self.queue.has_ready:
                self._slots.wake_one()

    @property
    def _is_probe_due(self) -> bool:
        breaker = self._breaker
        return (
            breaker is not None
            and breaker.state is BreakerState.OPEN
            and self._clock() >= breaker.probe_at
            and not self._paused_until
        )

    def _get_fresh(self) -> None:
        """Acquire something to probe with. All records in hand have failed, but others may do better."""
        if not (self._wants_fresh or self._stopping.is_set()):
            self._wants_fresh = True
            self._source.set_max_records(self.queue.unsettled + 1)
            self._source.resume()
            self._wants.send()

    def _quiet_s(self, now: float) -> float:
        """For how long nothing has to be looked after, unless something changes."""
        if not self._may_start or self._slots.busy:
            return _TICK_S
        due = self.queue.next_due
        return 1.0 if due is None else min(1.0, max(0.001, due - now))

    def _watch_slots(self, now: float) -> None:
        limit = self._options.time_limit
        for slot in self._slots.all:
            current = slot.current
            if slot.seen is not current:
                slot.seen, slot.seen_at = current, now
            elif current is None:
                continue
            elif now - slot.seen_at > limit:
                self._summary.event(
                    logging.WARNING,
                    f"took longer than time_limit ({limit:g} s), and were cancelled",
                    repr(current),
                    log_fields(self._delivery_of(slot.item)) if slot.item is not None else None,
                )
                slot.cancel()
            elif slot.batch is None and slot.item is not None and _is_lost(slot.item):
                slot.cancel()

    async def _move_long_runs(self) -> None:
        """Move what pins too much, while its handler continues."""
        if not (self._options.move_runs and self._source.can_renew):
            return
        for slot in self._slots.all:
            if slot.delivery is not None and self._is_in_the_way(slot.delivery):
                await self._tasks.start(self._move_run, slot.delivery, name="kshare worker: move a run")

    def _is_in_the_way(self, delivery: Delivery) -> bool:
        return (
            delivery.moving is None
            and delivery.decision is None
            and delivery.context is None
            and self.queue.pinned(delivery) > self._max_span
        )


def _is_lost(item: Item) -> bool:
    """Whether its lock was lost."""
    record = record_of(item)
    return bool(lost_spans_of(record.batch, record.offset, record.offset))


def _is_stray_cancellation(slot: Slot) -> bool:
    """Whether a handler raised asyncio's CancelledError though nobody has cancelled it: it awaited a cancelled task."""
    if slot.is_cancelled or anyio.current_effective_deadline() == float("-inf"):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and not task.cancelling() and isinstance(sys.exception(), asyncio.CancelledError)
