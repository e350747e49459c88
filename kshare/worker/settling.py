"""What becomes of records that weren't simply accepted: held, moved, given up, or handed back.

A record whose copy can't be written is held, and writing the copy is tried again until it succeeds. If it pins too
much of the in-flight window, it is released, unless that might archive it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from kshare.client.record import ShareRecord
from kshare.errors import AcknowledgeError, KshareError
from kshare.summary_log import SummaryLog
from kshare.surroundings import new_random
from kshare.worker.copies import Copies, Written
from kshare.worker.counts import Counts
from kshare.worker.delivery import Decision, Delivery
from kshare.worker.group_limits import ShareLimits
from kshare.worker.log_context import log_fields
from kshare.worker.observer import RecordOutcome
from kshare.worker.options import HandlerOptions
from kshare.worker.retry import LONGEST_DELAY_S
from kshare.worker.retry_topics import RetryTopics
from kshare.worker.user_functions import shortened
from kshare.worker.watching import Watch
from kshare.worker.work_queue import WorkQueue, is_held

_MOST_APART = 2
"""How many times in a row a record is moved because its deliveries ended without a result."""
_SHORTEST_S = 0.01
"""The shortest delay that isn't counted as an attempt. Without it, a handler that always asks for no
delay would be called without end, and nothing else would run."""
_COPY_AGAIN_S = 1.0
"""When to try to write a copy again that couldn't be written. Then twice as long each time, up to a limit."""
_COPY_AGAIN_LONGEST_S = 30.0


class Settling:
    """For one handler. `can_renew` says whether locks can be renewed; `release_unseen` releases a record that nobody
    has tried; `wall_clock` is the time of day, in seconds since
    1970."""

    def __init__(
        self,
        options: HandlerOptions,
        limits: ShareLimits,
        *,
        queue: WorkQueue,
        copies: Copies,
        counts: Counts,
        summary: SummaryLog,
        can_renew: Callable[[], bool],
        release_unseen: Callable[[ShareRecord], bool],
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        watch: Watch,
    ) -> None:
        self._options = options
        self._limits = limits
        self._queue = queue
        self._copies = copies
        self._counts = counts
        self._summary = summary
        self._can_renew = can_renew
        self._release_unseen = release_unseen
        self._clock = clock
        self._wall_clock = wall_clock
        self._watch = watch
        self._random = new_random()
        self.is_ending = False
        """Whether nothing can be held any more."""
        self.is_abandoned = False
        """Whether the consumer releases all that it has: what that costs is counted already."""

    def tiers_of(self, delivery: Delivery) -> RetryTopics | None:
        """The retry topics for copies of this record, if there are any."""
        return None if delivery.is_stray or delivery.is_oversized else self._copies.tiers

    def is_due(self, delivery: Delivery) -> bool:
        """Whether a copy may be processed."""
        assert delivery.context is not None, "a copy"
        return delivery.context.due_ms <= self._wall_clock() * 1000 + 50

    async def delay(
        self, delivery: Delivery, delay: float, *, counts: bool, error: BaseException | None = None
    ) -> None:
        """Hold the record, or move it to a retry topic."""
        is_too_long = delay > self._options.hold_up_to or (
            not self._can_renew() and delay >= self._limits.holdable_s
        )
        if self.tiers_of(delivery) is not None and (is_too_long or delivery.moved_to is not None):
            await self.move(delivery, delay, counts=counts, error=error)
            return
        self._hold(delivery, delay, counts=counts, error=error)

    def _hold(self, delivery: Delivery, delay: float, *, counts: bool, error: BaseException | None) -> None:
        again = _next_delivery(delivery)
        again.attempt += 1 if counts else 0
        if not counts:
            delay = max(delay, _SHORTEST_S)
        self._queue.hold(again, self._clock() + delay)
        self._counts.held += 1
        self._watch.settled(RecordOutcome.HELD, delivery, error)

    async def move(
        self,
        delivery: Delivery,
        delay: float,
        *,
        counts: bool,
        error: BaseException | None = None,
        apart: int = 0,
    ) -> None:
        began = time.perf_counter()
        written = await self._copies.move_to_retry_topic(
            delivery, delay, counts=counts, error=error, apart=apart
        )
        if written is Written.YES:
            self._counts.moved += 1
            self._watch.settled(RecordOutcome.MOVED, delivery, error, began)
        elif written is Written.TOO_LARGE and delivery.moved_to is None:
            delivery.is_oversized, delivery.instead = True, None
            if self.is_ending:
                await self.hand_back(delivery)
            else:
                # Deliveries that ended without a result aren't attempts of its handler.
                longest = LONGEST_DELAY_S if self._can_renew() else self._limits.holdable_s
                self._hold(delivery, min(delay, longest), counts=counts and not apart, error=error)
        else:
            again = partial(self.move, delay=delay, counts=counts, error=error, apart=apart)
            self._not_copied(delivery, again)

    async def write_again(self, delivery: Delivery) -> None:
        """Replace a copy that isn't due yet by an identical one, whose delivery count begins at 0 again."""
        if await self._copies.write_again(delivery):
            self._counts.moved += 1
            self._watch.settled(RecordOutcome.MOVED, delivery)
        else:
            self._not_copied(delivery, self.write_again)

    async def move_apart(self, delivery: Delivery, tiers: RetryTopics) -> None:
        """Move a record that was often delivered without a result.

        It may have killed its processes, or only have been in hand with one that did. So the retry policy doesn't count
        this, and such records become due one by one, over some time: otherwise those that are innocent would share the
        fate of the other one. If the same happens to further copies, that isn't chance any more.
        """
        apart = delivery.context.apart if delivery.context is not None else 0
        if apart < _MOST_APART:
            delay = tiers.tiers[0] * self._random.uniform(0.5, 1.0)
            await self.move(delivery, delay, counts=True, apart=apart + 1)
        else:
            await self.give_up(delivery, without_result(delivery, delivery.delivery_count - 1), None)

    async def give_up(self, delivery: Delivery, message: str, error: BaseException | None) -> None:
        began = time.perf_counter()
        if await self._copies.move_to_dead_letters(delivery, message, error):
            self._counts.dead += 1
            self._watch.settled(RecordOutcome.DEAD, delivery, error or message, began)
            self._log_given_up(delivery, message)
        else:
            self._not_copied(delivery, partial(self.give_up, message=message, error=error))

    def _log_given_up(self, delivery: Delivery, message: str) -> None:
        kept = self._options.dead_letters
        cause = (
            "rejected"
            if kept is None
            else f"dead letters in {kept}"
            if isinstance(kept, str)
            else "dead letters"
        )
        detail = shortened(message)
        if delivery.decision is not Decision.REJECTED:
            # A line for each reason of ours. Those of users may all differ.
            cause, detail = f"{cause}: {detail}", ""
        offset = delivery.offset
        self._summary.records(
            logging.WARNING,
            cause,
            delivery.topic,
            delivery.partition,
            1,
            offset,
            offset,
            detail,
            log_fields(delivery),
        )

    def _not_copied(self, delivery: Delivery, act: Callable[[Delivery], Awaitable[None]]) -> None:
        """`act` couldn't write a copy."""
        if self.is_abandoned:
            return
        if (
            self.is_ending
            and delivery.moved_to is None
            and delivery.delivery_count >= self._limits.deliveries
        ):
            self._archive(delivery)
        elif self.is_ending or delivery.moved_to is not None:
            self._release(delivery)
        else:
            again = _next_delivery(delivery)
            again.instead = act
            again.refusals = delivery.refusals + 1
            again.instead_at = self._clock() + min(
                _COPY_AGAIN_LONGEST_S, _COPY_AGAIN_S * 2**delivery.refusals
            )
            self._queue.hold(again, again.instead_at)

    def _archive(self, delivery: Delivery) -> None:
        """Nothing can be done any more: whatever becomes of this delivery, it is the last."""
        problem = KshareError(
            "its copy couldn't be written before the worker ended, and this was its last delivery"
        )
        self._counts.lost += 1
        self._watch.settled(RecordOutcome.LOST, delivery, problem)
        self._summary.records(
            logging.ERROR,
            "archived by the broker without a copy, because that couldn't be written before the worker ended",
            delivery.topic,
            delivery.partition,
            1,
            delivery.offset,
            delivery.offset,
            "",
            log_fields(delivery),
        )

    async def make_way(self, delivery: Delivery) -> None:
        """A held record pins too much of the window, or too many are held."""
        if not is_held(delivery):
            self.on_lost(delivery, KshareError("while it was held for its next attempt"))
        elif delivery.instead is not None:
            if delivery.delivery_count < self._limits.last_delivery:
                self._release(delivery)
            else:
                self._queue.hold(delivery, delivery.instead_at)
        elif (tiers := self.tiers_of(delivery)) is not None:
            await self.move(delivery, tiers.tiers[0], counts=False)
        else:
            self._summary.event(
                logging.WARNING,
                "records are retried early, because they pin too much of the in-flight window",
                repr(delivery),
                log_fields(delivery),
            )
            self._queue.put(delivery)

    def may_hand_back(self, delivery: Delivery) -> bool:
        """Whether the record may be handed back only because it pins too much, or its attempts are kept in a copy."""
        if delivery.was_tried:
            return self.tiers_of(delivery) is not None
        return self._limits.may_be_released(delivery.delivery_count)

    def must_be_copied(self, delivery: Delivery, delay: float) -> bool:
        """Whether `hand_back` writes a copy, whatever the group's limits are then."""
        if delivery.instead is not None:
            return True
        is_waiting_copy = delivery.context is not None and not self.is_due(delivery)
        return not is_waiting_copy and self.tiers_of(delivery) is not None and _has_past(delivery, delay)

    async def hand_back(self, delivery: Delivery, delay: float = 0.0) -> None:
        """Release the record. If that would archive it, or forget its attempts or its delay, move it instead."""
        if not is_open(delivery):
            return
        is_last = delivery.delivery_count >= self._limits.deliveries
        if delivery.instead is not None:
            await delivery.instead(delivery)
        elif delivery.context is not None and not self.is_due(delivery):
            if is_last:
                await self.write_again(delivery)
            else:
                self._release(delivery)
        elif self.tiers_of(delivery) is not None:
            if is_last or _has_past(delivery, delay):
                await self.move(delivery, delay, counts=False)
            else:
                self._release(delivery)
        elif is_last and self._copies.has_dead_letters:
            await self.give_up(delivery, without_result(delivery, delivery.delivery_count), None)
        else:
            self._release(delivery)

    def _release(self, delivery: Delivery) -> None:
        if delivery.moved_to is not None:
            delivery.moved_to = None  # so that its last copy is processed, when it is due
            self._counts.released += 1
            return
        try:
            if delivery.was_tried or delivery.context is not None:
                delivery.record.release()
                if delivery.delivery_count >= self._limits.deliveries:
                    self._log_archived(delivery)
            elif not self._release_unseen(delivery.record):
                raise AcknowledgeError("before it was its turn")
            self._counts.released += 1
            self._watch.settled(RecordOutcome.RELEASED, delivery)
        except AcknowledgeError as problem:
            self.on_lost(delivery, problem)

    def _log_archived(self, delivery: Delivery) -> None:
        self._summary.records(
            logging.ERROR,
            "given back after their last delivery; the broker archives them",
            delivery.topic,
            delivery.partition,
            1,
            delivery.offset,
            delivery.offset,
            "",
            log_fields(delivery),
        )

    def on_abandoned(self, delivery: Delivery) -> None:
        """It is about to be released at once, whatever was to become of it. After the last delivery, nobody gets it
        again."""
        if not is_held(delivery) or delivery.delivery_count < self._limits.deliveries:
            return
        problem = KshareError("the worker ended before it was settled, and this was its last delivery")
        self._counts.lost += 1
        self._watch.settled(RecordOutcome.LOST, delivery, problem)
        self._log_archived(delivery)

    def release_at_once(self, delivery: Delivery) -> None:
        """Without what `hand_back` does to keep its attempts. Its handler was cancelled, and may still run."""
        if delivery.moved_to is None and is_held(delivery):
            with suppress(AcknowledgeError):
                delivery.record.release()

    def on_lost(self, delivery: Delivery, problem: Exception) -> None:
        self._counts.lost += 1
        self._watch.settled(RecordOutcome.LOST, delivery, problem)
        detail, fields = f"{delivery!r}: {problem}", log_fields(delivery)
        if delivery.delivery_count >= self._limits.deliveries:
            # The broker that has them delivers them again only if it has lost count, because leaders moved.
            cause = "records lost their locks in their last delivery: the broker archives them"
            self._summary.event(logging.ERROR, cause, detail, fields)
        else:
            cause = "records lost their locks, and will be delivered again"
            self._summary.event(logging.WARNING, cause, detail, fields)


def is_open(delivery: Delivery) -> bool:
    """Whether it is up to us what becomes of the record."""
    return delivery.moved_to is not None or is_held(delivery)


def _has_past(delivery: Delivery, delay: float) -> bool:
    """Whether only a copy remembers its delay, its attempts or its run."""
    has_failed_here = delivery.attempt > 1 + (delivery.context.attempts if delivery.context else 0)
    return delay > 0 or has_failed_here or delivery.moved_to is not None


def without_result(delivery: Delivery, deliveries: int) -> str:
    return f"{deliveries} deliveries ended without a result"


def _next_delivery(delivery: Delivery) -> Delivery:
    again = Delivery(delivery.record, delivery.group, delivery.attempts_allowed, delivery.context)
    again.attempt = delivery.attempt
    again.is_repeated = True
    again.is_stray = delivery.is_stray
    again.is_oversized = delivery.is_oversized
    again.probes = delivery.probes
    again.time_outs = delivery.time_outs
    again.successes_then = delivery.successes_then
    return again
