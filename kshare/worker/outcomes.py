"""Decides what becomes of records, before and after their handler: accepted, held, moved, given up or handed back.

    handler returned  → accepted, or as it decided
    handler raised    → held for its next attempt, moved to a retry topic, or given up
    handler cancelled → handed back: that is no failure, and never accepted

A record is accepted in the same step in which its handler has returned, so that nothing can come between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from kshare.client.record import lost_spans_of
from kshare.errors import AcknowledgeError, InProgress, KshareError
from kshare.summary_log import SummaryLog
from kshare.surroundings import new_random
from kshare.worker.counts import Counts
from kshare.worker.delivery import Decision, Delivery
from kshare.worker.group_limits import ShareLimits
from kshare.worker.log_context import log_fields
from kshare.worker.moved_runs import MovedRuns
from kshare.worker.observer import RecordOutcome
from kshare.worker.options import HandlerOptions
from kshare.worker.outbound import Publisher
from kshare.worker.payloads import PayloadError
from kshare.worker.results import BatchResults, Result
from kshare.worker.retry import LONGEST_DELAY_S, Exponential
from kshare.worker.routes import OnError
from kshare.worker.settling import Settling, is_open, without_result
from kshare.worker.user_functions import exception_name, is_failure, message_of, require_ended
from kshare.worker.watching import Watch

log = logging.getLogger("kshare.worker")

_LOOK_AGAIN_S = 5.0


class Outcomes:
    """For one handler. `on_failure` is told each failure, and returns whether it counts as an attempt."""

    def __init__(
        self,
        name: str,
        options: HandlerOptions,
        limits: ShareLimits,
        settling: Settling,
        publisher: Publisher,
        *,
        has_dead_letters: bool,
        runs: MovedRuns | None,
        counts: Counts,
        summary: SummaryLog,
        wall_clock: Callable[[], float],
        check_leases: Callable[[], object],
        on_failure: Callable[[Delivery, Exception], bool],
        on_success: Callable[[], None],
        on_error: Sequence[OnError],
        watch: Watch,
    ) -> None:
        self._name = name
        self._retry = options.retry
        self._limits = limits
        self._settling = settling
        self._publisher = publisher
        self._has_dead_letters = has_dead_letters
        self._runs = runs
        self._counts = counts
        self._summary = summary
        self._wall_clock = wall_clock
        self._check_leases = check_leases
        self._on_failure = on_failure
        self._on_success = on_success
        self._on_error = on_error
        self._watch = watch
        self._most_attempts = options.retry.most_attempts()
        self._random = new_random()

    # --- before the handler

    async def may_process(self, delivery: Delivery) -> bool:
        """Whether the record may be processed. If not, it was settled, moved, or held."""
        settling, context = self._settling, delivery.context
        if delivery.instead is not None:
            await delivery.instead(delivery)
        elif context is not None and context.run and await self._is_elsewhere(delivery):
            pass
        elif context is not None and not settling.is_due(delivery):
            await settling.write_again(delivery)
        elif delivery.counted_attempt > self._most_attempts:
            await settling.give_up(delivery, f"{delivery.counted_attempt - 1} attempts have failed", None)
        elif (
            delivery.delivery_count >= self._limits.last_safe_delivery
            and (tiers := settling.tiers_of(delivery)) is not None
        ):
            await settling.move_apart(delivery, tiers)
        elif self._has_dead_letters and delivery.delivery_count >= self._limits.last_delivery:
            message = without_result(delivery, delivery.delivery_count - 1)
            await settling.give_up(delivery, message, None)
        else:
            return True
        return False

    def has_lock(self, delivery: Delivery) -> bool:
        """Whether its handler may be called now: it may have waited for long, or a dead letter of its batch may have
        taken long."""
        self._check_leases()
        if is_open(delivery) or delivery.decision is not None:
            return True
        self._settling.on_lost(delivery, KshareError("before its handler was called"))
        return False

    async def _is_elsewhere(self, delivery: Delivery) -> bool:
        """Whether this is the copy of a run that continues, or is over."""
        assert self._runs is not None, "there are retry topics"
        try:
            is_over = await self._runs.is_over(delivery)
        except KshareError as problem:
            self._summary.event(
                logging.WARNING,
                "copies of moved records are looked at later: their log can't be read",
                problem,
            )
            await self._settling.delay(delivery, _LOOK_AGAIN_S, counts=False)
            return True
        if is_over:
            delivery.record.accept()
        return is_over

    # --- after the handler

    async def write_results(self, deliveries: Sequence[Delivery]) -> None:
        """Write what the handler has published, for those of the deliveries that are to be accepted, and for the whole
        batch if any is. Raises KshareError if that fails: then the handler has failed.

        Results and acknowledgements could be one transaction here, once brokers have that.
        """
        results: list[Result] = []
        batch: BatchResults | None = None
        for delivery in deliveries:
            if delivery.decision in (None, Decision.ACCEPTED):
                taken = delivery.take_results()
                if is_open(delivery):  # otherwise accepting it will fail
                    results += taken
                    batch = delivery.batch_results
        if batch is None:
            if results:
                await self._publisher.write(results)
            return
        whole = [*batch.to_write(), *results]
        if whole:
            try:
                await self._publisher.write(whole)
            except KshareError as problem:
                batch.on_failed(problem)
                raise
            batch.on_written()

    async def on_returned(self, delivery: Delivery) -> None:
        try:
            match delivery.decision:
                case None:
                    delivery.accept_after_handler()
                case Decision.DELAYED:
                    await self._settling.delay(delivery, delivery.delay, counts=False)
                case Decision.REJECTED:
                    await self._settling.give_up(delivery, delivery.reason, None)
                case Decision.RELEASED:
                    await self._settling.hand_back(delivery)
            self._counts.done += delivery.decision is Decision.ACCEPTED
        except AcknowledgeError as problem:
            self._settling.on_lost(delivery, problem)
            return
        if delivery.decision is Decision.ACCEPTED:
            self._watch.settled(RecordOutcome.ACCEPTED, delivery)
        self._on_success()

    async def on_exception(self, delivery: Delivery, error: Exception) -> None:
        if isinstance(error, InProgress) and delivery.decision is None:
            # Another member is processing a copy of it: this is neither a failure nor a success.
            later = min(max(0.0, error.retry_after), LONGEST_DELAY_S)  # 0 if a store has made it NaN
            await self._settling.delay(delivery, later, counts=False)
            return
        if not is_open(delivery) and delivery.decision is not Decision.ACCEPTED:
            self._settling.on_lost(delivery, error)
            return
        counts = self._report(delivery, error)
        match delivery.decision:
            case Decision.ACCEPTED:
                await self._finish_accepted(delivery)
                return
            case Decision.REJECTED:
                await self._settling.give_up(delivery, delivery.reason, error)
                return
            case Decision.RELEASED:
                await self._settling.hand_back(delivery)
                return
            case Decision.DELAYED:
                await self._settling.delay(delivery, delivery.delay, counts=False, error=error)
                return
        if isinstance(error, PayloadError):
            await self._settling.give_up(delivery, str(error), error)
            return
        age = max(0.0, self._wall_clock() - delivery.timestamp / 1000)
        delay = self._next_delay(error, delivery.counted_attempt, age)
        if not counts:
            await self._settling.delay(delivery, delay or 0.0, counts=False, error=error)
        elif delay is None:
            await self._settling.give_up(
                delivery, f"{exception_name(error)} in attempt {delivery.attempt}", error
            )
        else:
            await self._settling.delay(delivery, delay, counts=True, error=error)

    async def _finish_accepted(self, delivery: Delivery) -> None:
        """The handler has raised after it had accepted the record."""
        if delivery.has_unwritten or is_open(delivery):  # it waits for results, its own or those of its batch
            try:
                await self.write_results([delivery])
                delivery.accept_after_handler()
            except AcknowledgeError as problem:
                self._settling.on_lost(delivery, problem)
                return
            except KshareError as problem:
                await self.on_exception(delivery, problem)
                return
        self._counts.done += 1
        self._watch.settled(RecordOutcome.ACCEPTED, delivery)

    def _next_delay(self, error: Exception, attempt: int, age: float) -> float | None:
        luck = self._random.random()
        try:
            return self._retry.next_delay(error, attempt, age, luck)
        except BaseException as problem:
            if not is_failure(problem):
                raise
            cause = "records are retried after the default delay, because the delay function of their policy failed"
            self._summary.event(
                logging.ERROR,
                cause,
                f"{exception_name(problem)} for attempt {attempt}: {message_of(problem)}",
            )
            log.debug("the delay function failed", exc_info=True)
            return Exponential().after(attempt, luck)

    def _report(self, delivery: Delivery, error: Exception) -> bool:
        """Count and log the failure. Returns whether it counts as an attempt."""
        self._counts.failed += 1
        self._summary.records(
            logging.WARNING,
            f"failed with {exception_name(error)}",
            delivery.topic,
            delivery.partition,
            1,
            delivery.offset,
            delivery.offset,
            message_of(error),
            log_fields(delivery),
        )
        fields = {"group": delivery.group, "handler": self._name, **log_fields(delivery)}
        log.debug("handler %s failed for %r", self._name, delivery, exc_info=error, extra=fields)
        delivery.is_over = False  # these functions may still decide: nothing else runs meanwhile
        for report in self._on_error:
            try:
                require_ended(report, report(delivery, error), "on_error")
            except BaseException as problem:
                if not is_failure(problem):
                    raise
                what = f"{exception_name(problem)}: {message_of(problem)}"
                self._summary.event(logging.ERROR, "on_error failed", what)
                log.debug("on_error failed", exc_info=True)
        delivery.is_over = True
        return isinstance(error, PayloadError) or self._on_failure(delivery, error)

    async def on_cancelled(self, delivery: Delivery, *, keeps: bool = False) -> None:
        """`keeps`: it is tried again later, without being handed back."""
        self._counts.cancelled += 1
        delivery.is_over = True
        if not is_open(delivery):
            if lost_spans_of(delivery.record.batch, delivery.record.offset, delivery.record.offset):
                self._settling.on_lost(delivery, KshareError("its handler was cancelled"))
            elif delivery.decision is Decision.ACCEPTED:
                self._watch.settled(RecordOutcome.ACCEPTED, delivery)
        elif delivery.decision is Decision.REJECTED:
            await self._settling.give_up(delivery, delivery.reason, None)
        elif delivery.decision is Decision.DELAYED:
            await self._settling.delay(delivery, delivery.delay, counts=False)
        elif keeps and delivery.decision is None:
            await self._settling.delay(delivery, 0.0, counts=False)
        else:
            await self._settling.hand_back(delivery)

    # --- apart from handlers

    async def move_away(self, delivery: Delivery) -> None:
        """Move a record that `may_process` would not let through."""
        try:
            may_process = await self.may_process(delivery)
        except AcknowledgeError as problem:
            self._settling.on_lost(delivery, problem)
        else:
            assert not may_process, "it was delivered too often"

    async def finish(self, delivery: Delivery) -> None:
        """The last step of a delivery whose run was moved."""
        if self._runs is not None and delivery.moved_to is not None:
            await self._runs.finish(delivery)
