"""Whether records may be processed now: a pause, an open circuit breaker, a rate limit or other handlers may forbid it.

A handler is *stopped* while it is paused, or its breaker isn't closed: then nothing is acquired either. What it has
acquired it keeps, and its locks are renewed: giving it back would use up a delivery of records that nobody has tried,
each time. Only a long pause gives back what pins too much. While handlers with a higher priority have work that their
rate limit allows, it only waits.

When the worker ends, it has to give records back. What hasn't enough deliveries left is tried first, even if the
handler is stopped: otherwise, one restart after another would use up all deliveries of records that nobody has tried.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import anyio

from kshare.worker.functions.user_functions import exception_name
from kshare.worker.host import RunningHandler
from kshare.worker.queue.work_queue import Item, WorkQueue
from kshare.worker.records.delivery import Delivery
from kshare.worker.rules.breaker import BreakerMachine, BreakerState
from kshare.worker.rules.rate_limit import TokenBucket
from kshare.worker.run.slots import Slot


class Admission:
    """For one handler."""

    def __init__(self, handler: RunningHandler, queue: WorkQueue) -> None:
        options = handler.options
        self._handler = handler
        self._queue = queue
        self._counts = handler.counts
        self._clock = handler.clock
        self._host = handler.host
        self._breaker = BreakerMachine(options.breaker) if options.breaker else None
        self._bucket = TokenBucket(options.rate_limit) if options.rate_limit else None
        self._paused_until = 0.0
        self.hands_back = False
        """Whether the pause is so long that what pins too much of the in-flight window is handed back."""
        self.is_held_up = False
        """Whether nothing may start, until `go_on`."""
        self._is_ending = False
        self._higher: Sequence[Admission] = ()

    @property
    def is_paused(self) -> bool:
        return self._paused_until > 0

    @property
    def breaker_state(self) -> BreakerState:
        return self._breaker.state if self._breaker is not None else BreakerState.CLOSED

    @property
    def is_stopped(self) -> bool:
        return (
            self.is_held_up
            or bool(self._paused_until)
            or not (self._breaker is None or self._breaker.is_closed)
        )

    @property
    def may_start(self) -> bool:
        if self.is_stopped:
            return False
        return not self._higher or not any(other._has_work for other in self._higher)

    @property
    def is_unrestricted(self) -> bool:
        """Whether `next` needn't be asked: the next record of the queue may be processed."""
        return self._bucket is None and self.may_start

    @property
    def is_probe_due(self) -> bool:
        """Whether one record is to be tried, though the breaker is open."""
        breaker = self._breaker
        return (
            breaker is not None
            and breaker.state is BreakerState.OPEN
            and self._clock() >= breaker.probe_at
            and not self._paused_until
            and not self.is_held_up
        )

    @property
    def has_to_try(self) -> bool:
        """Whether a record has to be tried now, though the handler is stopped: it hasn't enough deliveries left."""
        may_try = self._is_ending and self.is_stopped and not self.is_held_up
        return may_try and self._queue.has_untried(self.must_be_tried)

    def must_be_tried(self, delivery_count: int) -> bool:
        """Whether it mustn't be given back untried: it hasn't enough deliveries left."""
        return not self._handler.limits.may_be_released(delivery_count)

    @property
    def _has_work(self) -> bool:
        """Whether handlers with a lower priority wait. While its rate limit lets it start nothing, they don't."""
        may_take = self._bucket is None or self._bucket.has_token(self._clock())
        return self._queue.has_ready and self.may_start and may_take

    def give_way_to(self, higher: Sequence[Admission]) -> None:
        """Tell it the handlers with a higher priority."""
        self._higher = higher

    def pause(self, seconds: float) -> None:
        """For 0 seconds: `end_pause` ends the pause when it looks next. This may be called outside of tasks."""
        if not seconds:
            self._paused_until = min(self._paused_until, self._clock())
            return
        self._paused_until = max(self._paused_until, self._clock() + seconds)
        self.hands_back |= seconds >= self._handler.limits.lock_s
        self._host.on_admission()

    def end_pause(self, now: float) -> None:
        """If it is over."""
        if self._paused_until and now >= self._paused_until:
            self._paused_until = 0.0
            self.hands_back = False
            self._host.on_admission()

    def end(self) -> None:
        """The worker ends: what hasn't enough deliveries left is tried now."""
        self._is_ending = True

    def hold_up(self) -> None:
        """Let nothing start, until `go_on`."""
        self.is_held_up = True

    def go_on(self) -> None:
        self.is_held_up = False
        self._host.on_admission()

    async def next(self, until: float | None = None) -> Item | None:
        """The next record, if it may be processed. A rate limit may make this wait, until this time at most."""
        if not (self.may_start or self.is_probe_due or self.has_to_try):
            return None
        if self._bucket is not None:
            while not self._bucket.take(now := self._clock()):
                if until is not None and now >= until:
                    return None
                await anyio.sleep(
                    self._bucket.wait_s if until is None else min(self._bucket.wait_s, until - now)
                )
        item = self._next_or_probe()
        if item is None and self._bucket is not None:
            self._bucket.give_back()
        return item

    def _next_or_probe(self) -> Item | None:
        if self.may_start:
            return self._queue.next()
        if self.has_to_try:
            return self._queue.next_untried(self.must_be_tried)
        breaker = self._breaker
        if not self.is_probe_due or breaker is None or not breaker.may_start(self._clock()):
            return None
        item = self._queue.next_for_probe()
        if item is None:
            breaker.on_no_result(self._clock())
        return item

    def on_failure(self, delivery: Delivery, error: Exception) -> bool:
        """Returns whether the failure counts as an attempt of its record.

        What is tried only because the worker ends may fail for the reason that has stopped the handler.
        """
        self._handler.changed.send()
        if delivery.is_at_end:
            return False
        if self._breaker is None:
            return True
        was_closed = self._breaker.is_closed
        is_attempt = self._breaker.on_failure(self._clock(), self._counts.done, is_first=_is_first(delivery))
        self._on_failed(delivery)
        self._tell_if_open(exception_name(error), was_closed)
        return is_attempt

    def on_timed_out(self, slot: Slot, deliveries: list[Delivery]) -> None:
        """The handler takes longer than its time limit, and is about to be cancelled. Are its records kept, and tried
        again here? Otherwise they are handed back, which uses up a delivery:

            several records, processed as a batch | kept: one of them may be the cause, so each is tried alone
            the breaker isn't closed              | kept: what the handler depends on may hang
            ... but others were processed since   | handed back: it is the record
              this record timed out before        |
            otherwise                             | handed back
        """
        ours = [delivery for delivery in deliveries if not delivery.is_at_end]
        may_be_to_blame = not ours or self._count_time_out(ours, slot.successes_then)
        is_kept = len(ours) > 1
        for our in ours:
            is_to_blame = our.time_outs > 0 and self._counts.done > our.successes_then
            is_kept |= not (may_be_to_blame or is_to_blame)
            our.time_outs += 1
            our.successes_then = self._counts.done
        slot.timed_out, slot.keeps = deliveries, is_kept

    def _count_time_out(self, deliveries: list[Delivery], before: int) -> bool:
        """One run of these takes too long. `before`: how many records had been processed when it began."""
        breaker = self._breaker
        if breaker is None:
            return True
        was_closed = breaker.is_closed
        first = deliveries[0]
        may_be_to_blame = breaker.on_timed_out(
            self._clock(),
            self._counts.done,
            (first.topic, first.partition, first.offset),
            before=before,
            is_first=any(map(_is_first, deliveries)),
        )
        for delivery in deliveries:
            self._on_failed(delivery)
        self._tell_if_open("a timeout", was_closed)
        return may_be_to_blame

    def _on_failed(self, delivery: Delivery) -> None:
        delivery.probes = 0 if self._breaker is None or self._breaker.is_closed else delivery.probes + 1

    def _tell_if_open(self, cause: str, was_closed: bool) -> None:
        breaker = self._breaker
        if breaker is None or breaker.is_closed or not was_closed:
            return
        self._on_breaker(
            breaker.state,
            f"it opens, because most runs fail (the last one with {cause}): nothing is acquired, and a record is "
            f"tried every {breaker.settings.probe_after:g} s",
        )

    def on_success(self) -> None:
        breaker = self._breaker
        if breaker is None or breaker.is_closed:
            return
        breaker.on_success(self._counts.done)
        if breaker.is_closed:
            self._on_breaker(breaker.state, "it closes, because a record was processed")

    def _on_breaker(self, state: BreakerState, what: str) -> None:
        """It has opened or closed, which may happen several times a second while some records fail.

        Both are one kind of line, so the last one that is logged says what it is now.
        """
        self._handler.watch.breaker(state)
        self._handler.summary.event(logging.WARNING, "the circuit breaker has changed", what)
        self._host.on_admission()

    def on_end(self) -> None:
        """A run has ended. If it was to show whether the dependency is back, and had neither failed nor succeeded (it
        was cancelled, or the handler wasn't called at all), another one has to show it."""
        if self._breaker is not None:
            self._breaker.on_no_result(self._clock())


def _is_first(delivery: Delivery) -> bool:
    """Whether it is the first attempt of its record, as far as this worker knows."""
    return delivery.attempt == 1 and not delivery.time_outs
