"""Settles records after their handler has ended: accepts, holds, moves, gives up or hands back.

    handler returned  → accepted, or as it decided
    handler raised    → held for its next attempt, moved to a retry topic, or given up
    handler cancelled → handed back: that is no failure, and never accepted

A record is accepted in the same step in which its handler has returned, so that nothing can come between.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence

from kshare.client.record import lost_spans_of
from kshare.errors import AcknowledgeError, InProgress, KshareError
from kshare.summary_log import SummaryLog
from kshare.worker.copies import Copies
from kshare.worker.counts import Counts
from kshare.worker.delivery import Decision, Delivery
from kshare.worker.group_limits import ShareLimits
from kshare.worker.log_context import log_fields
from kshare.worker.moved_runs import MovedRuns
from kshare.worker.observer import RecordOutcome
from kshare.worker.options import HandlerOptions
from kshare.worker.payloads import PayloadError
from kshare.worker.retry import Exponential
from kshare.worker.retry_topics import RetryTopics
from kshare.worker.routes import OnError
from kshare.worker.watching import Watch
from kshare.worker.work_queue import WorkQueue, is_held

log = logging.getLogger("kshare.worker")

_LOOK_AGAIN_S = 5.0


class Outcomes:
    """For one handler. `can_renew` says whether locks can be renewed; `is_failure` is told each failure, and returns
    whether it counts as an attempt."""

    def __init__(
        self,
        name: str,
        options: HandlerOptions,
        limits: ShareLimits,
        *,
        queue: WorkQueue,
        copies: Copies,
        runs: MovedRuns | None,
        counts: Counts,
        summary: SummaryLog,
        can_renew: Callable[[], bool],
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        on_failure: Callable[[Delivery, Exception], bool],
        on_success: Callable[[], None],
        on_error: Sequence[OnError],
        watch: Watch | None = None,
    ) -> None:
        self._name = name
        self._options = options
        self._limits = limits
        self._queue = queue
        self._copies = copies
        self._runs = runs
        self._counts = counts
        self._summary = summary
        self._can_renew = can_renew
        self._clock = clock
        self._wall_clock = wall_clock
        self._on_failure = on_failure
        self._on_success = on_success
        self._on_error = on_error
        self._watch = watch or Watch()
        self._most_attempts = options.retry.most_attempts()

    # --- before the handler

    async def may_process(self, delivery: Delivery) -> bool:
        """Whether the record may be processed. If not, it was settled, or moved."""
        if delivery.context is not None and not self._is_due(delivery):
            await self._move(delivery, delivery.context.due_ms / 1000 - self._wall_clock(), counts=False)
            return False
        if delivery.context is not None and delivery.context.run and await self._is_elsewhere(delivery):
            return False
        if delivery.attempt > self._most_attempts:
            await self.give_up(delivery, f"{delivery.attempt - 1} attempts have failed", None)
            return False
        if self._copies.tiers is not None:
            if delivery.delivery_count < self._limits.last_safe_delivery:
                return True
            await self._move_apart(delivery, self._copies.tiers)
            return False
        if delivery.delivery_count >= self._limits.deliveries and self._copies.has_dead_letters:
            # Its last delivery: if this process dies now, the broker archives it, and nobody hears of it.
            await self.give_up(delivery, _without_result(delivery), None)
            return False
        return True

    def _is_due(self, delivery: Delivery) -> bool:
        assert delivery.context is not None
        return delivery.context.due_ms <= self._wall_clock() * 1000 + 50

    async def _is_elsewhere(self, delivery: Delivery) -> bool:
        """Whether this is the copy of a run that continues, or is over."""
        assert self._runs is not None, "there are retry topics"
        try:
            is_over = await self._runs.is_over(delivery)
        except KshareError as problem:
            self._summary.event(logging.WARNING, "are looked at later: their log can't be read", problem)
            await self._delay(delivery, _LOOK_AGAIN_S, counts=False)
            return True
        if is_over:
            delivery.record.accept()
        return is_over

    # --- after the handler

    async def on_returned(self, delivery: Delivery) -> None:
        try:
            match delivery.decision:
                case None:
                    delivery.accept()
                case Decision.DELAYED:
                    await self._delay(delivery, delivery.delay, counts=False)
                case Decision.REJECTED:
                    await self.give_up(delivery, delivery.reason, None)
                case Decision.RELEASED:
                    await self.hand_back(delivery)
            self._counts.done += delivery.decision is Decision.ACCEPTED
        except AcknowledgeError as problem:
            self.on_lost(delivery, problem)
            return
        if delivery.decision is Decision.ACCEPTED:
            self._watch.settled(RecordOutcome.ACCEPTED, delivery)
        self._on_success()

    async def on_exception(self, delivery: Delivery, error: Exception) -> None:
        if isinstance(error, InProgress):
            # Another member is processing a copy of it: this is neither a failure nor a success.
            await self._delay(delivery, error.retry_after, counts=False)
            return
        if not _is_open(delivery) and delivery.decision is not Decision.ACCEPTED:
            self.on_lost(delivery, error)
            return
        counts = self._report(delivery, error)
        match delivery.decision:
            case Decision.ACCEPTED:
                self._counts.done += 1
                self._watch.settled(RecordOutcome.ACCEPTED, delivery)
                return
            case Decision.REJECTED:
                await self.give_up(delivery, delivery.reason, error)
                return
            case Decision.RELEASED:
                await self.hand_back(delivery)
                return
            case Decision.DELAYED:
                await self._delay(delivery, delivery.delay, counts=False, error=error)
                return
        if isinstance(error, PayloadError):
            await self.give_up(delivery, str(error), error)
            return
        age = max(0.0, self._wall_clock() - delivery.timestamp / 1000)
        delay = self._next_delay(error, delivery.attempt, age)
        if not counts:
            await self._delay(delivery, delay or 0.0, counts=False, error=error)
        elif delay is None:
            await self.give_up(delivery, f"{type(error).__qualname__} in attempt {delivery.attempt}", error)
        else:
            await self._delay(delivery, delay, counts=True, error=error)

    def _next_delay(self, error: Exception, attempt: int, age: float) -> float | None:
        luck = random.random()
        try:
            return self._options.retry.next_delay(error, attempt, age, luck)
        except Exception as problem:  # from the user's function
            cause = "are retried after the default delay, because the delay function of their policy failed"
            self._summary.event(logging.ERROR, cause, f"{type(problem).__qualname__} for attempt {attempt}")
            log.debug("the delay function failed", exc_info=True)
            return Exponential().after(attempt, luck)

    def _report(self, delivery: Delivery, error: Exception) -> bool:
        """Count and log the failure. Returns whether it counts as an attempt."""
        self._counts.failed += 1
        self._summary.records(
            logging.WARNING,
            f"failed with {type(error).__qualname__}",
            delivery.topic,
            delivery.partition,
            1,
            delivery.offset,
            delivery.offset,
            fields=log_fields(delivery),
        )
        fields = {"group": delivery.group, "handler": self._name, **log_fields(delivery)}
        log.debug("handler %s failed for %r", self._name, delivery, exc_info=error, extra=fields)
        for report in self._on_error:
            try:
                report(delivery, error)
            except Exception as problem:
                self._summary.event(logging.ERROR, "on_error failed", type(problem).__qualname__)
                log.debug("on_error failed", exc_info=True)
        return isinstance(error, PayloadError) or self._on_failure(delivery, error)

    async def on_cancelled(self, delivery: Delivery) -> None:
        self._counts.cancelled += 1
        if not _is_open(delivery):
            if lost_spans_of(delivery.record.batch, delivery.record.offset, delivery.record.offset):
                self.on_lost(delivery, KshareError("its handler was cancelled"))
            elif delivery.decision is Decision.ACCEPTED:
                self._watch.settled(RecordOutcome.ACCEPTED, delivery)
        elif delivery.decision is Decision.REJECTED:
            await self.give_up(delivery, delivery.reason, None)
        elif delivery.decision is Decision.DELAYED:
            await self._delay(delivery, delivery.delay, counts=False)
        else:
            await self.hand_back(delivery)

    # --- what becomes of it

    async def _delay(
        self, delivery: Delivery, delay: float, *, counts: bool, error: BaseException | None = None
    ) -> None:
        """Hold the record, or move it to a retry topic."""
        is_too_long = delay > self._options.hold_up_to or (
            not self._can_renew() and delay >= self._limits.holdable_s
        )
        if self._copies.tiers is not None and (is_too_long or delivery.moved_to is not None):
            await self._move(delivery, delay, counts=counts, error=error)
            return
        again = Delivery(delivery.record, delivery.group, delivery.attempts_allowed, delivery.context)
        again.attempt = delivery.attempt + (1 if counts else 0)
        again.probes = delivery.probes
        self._queue.hold(again, self._clock() + delay)
        self._counts.held += 1
        self._watch.settled(RecordOutcome.HELD, delivery, error)

    async def _move(
        self, delivery: Delivery, delay: float, *, counts: bool, error: BaseException | None = None
    ) -> None:
        began = time.perf_counter()
        if await self._copies.move_to_retry_topic(delivery, delay, counts=counts, error=error):
            self._counts.moved += 1
            self._watch.settled(RecordOutcome.MOVED, delivery, error, began)
        else:
            self._release(delivery)

    async def _move_apart(self, delivery: Delivery, tiers: RetryTopics) -> None:
        """Move a record that was often delivered without a result.

        It may have killed its processes, or only have been in hand with one that did. So all of its deliveries count as
        one attempt, and such records become due one by one, over some time: otherwise those that are innocent would
        share the fate of the other one. If the same happens to the copy, that isn't chance any more.
        """
        if delivery.context is None and delivery.attempt < self._most_attempts:
            await self._move(delivery, tiers.tiers[0] * random.uniform(0.5, 1.0), counts=True)
        else:
            await self.give_up(delivery, _without_result(delivery), None)

    async def move_away(self, delivery: Delivery) -> None:
        """Move a record that `may_process` would not let through."""
        try:
            may_process = await self.may_process(delivery)
        except AcknowledgeError as problem:
            self.on_lost(delivery, problem)
        else:
            assert not may_process, "it was delivered too often"

    async def give_up(self, delivery: Delivery, message: str, error: BaseException | None) -> None:
        began = time.perf_counter()
        if await self._copies.move_to_dead_letters(delivery, message, error):
            self._counts.dead += 1
            self._watch.settled(RecordOutcome.DEAD, delivery, error or message, began)
        else:
            self._release(delivery)

    async def make_way(self, delivery: Delivery) -> None:
        """A held record pins too much of the window, or too many are held."""
        if not is_held(delivery):
            self.on_lost(delivery, KshareError("while it was held for its next attempt"))
        elif self._copies.tiers is not None:
            await self._move(delivery, self._copies.tiers.tiers[0], counts=False)
        else:
            self._summary.event(
                logging.WARNING,
                "are retried early, because they pin too much of the in-flight window",
                repr(delivery),
                log_fields(delivery),
            )
            self._queue.put(delivery)

    async def hand_back(self, delivery: Delivery, delay: float = 0.0) -> None:
        """Release the record. If that would archive it, or forget its attempts or its delay, move it instead."""
        if not _is_open(delivery):
            return
        is_last = delivery.delivery_count >= self._limits.deliveries
        if self._copies.tiers is not None:
            is_as_it_was = delivery.attempt == 1 + (delivery.context.attempts if delivery.context else 0)
            keeps_delay = delay == 0 or (delivery.context is not None and not self._is_due(delivery))
            if is_last or not (is_as_it_was and keeps_delay) or delivery.moved_to is not None:
                await self._move(delivery, delay, counts=False)
                return
        elif is_last and self._copies.has_dead_letters:
            message = f"{delivery.delivery_count} deliveries ended without a result"
            await self.give_up(delivery, message, None)
            return
        self._release(delivery)

    def _release(self, delivery: Delivery) -> None:
        if delivery.moved_to is not None:
            delivery.moved_to = None  # so that its last copy is processed, when it is due
            self._counts.released += 1
            return
        try:
            delivery.record.release()
            self._counts.released += 1
            self._watch.settled(RecordOutcome.RELEASED, delivery)
        except AcknowledgeError as problem:
            self.on_lost(delivery, problem)

    async def finish(self, delivery: Delivery) -> None:
        """The last step of a delivery whose run was moved."""
        if self._runs is not None and delivery.moved_to is not None:
            await self._runs.finish(delivery)

    def on_lost(self, delivery: Delivery, problem: Exception) -> None:
        self._counts.lost += 1
        self._watch.settled(RecordOutcome.LOST, delivery, problem)
        self._summary.event(
            logging.WARNING,
            "lost their locks, and will be delivered again",
            f"{delivery!r}: {problem}",
            log_fields(delivery),
        )


def _is_open(delivery: Delivery) -> bool:
    """Whether it is up to us what becomes of the record."""
    return delivery.moved_to is not None or is_held(delivery)


def _without_result(delivery: Delivery) -> str:
    return f"{delivery.delivery_count - 1} deliveries ended without a result"
