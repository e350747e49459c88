"""A delivery: one record on its way through a handler, and what the handler decides about it.

Handlers get it as a parameter that is annotated with `Delivery`. Without a decision, a handler that returns accepts its
record, and one that raises fails it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import anyio

from kshare.client.record import ShareRecord
from kshare.errors import ConfigError, KshareError
from kshare.idempotency.calls import give_up_results
from kshare.producer.records import Headers
from kshare.worker.records.headers import Header, RetryContext, own_headers
from kshare.worker.records.results import BatchResults, Result, checked_result
from kshare.worker.rules.decision import ACCEPT, RELEASE, Decision, RecordOutcome


class Delivery:
    """A record that is being processed. Its methods may also be called from the thread that a plain handler runs in."""

    __slots__ = (
        "_call_in_loop",
        "attempt",
        "attempts_allowed",
        "batch_results",
        "context",
        "decided",
        "decision",
        "group",
        "is_at_end",
        "is_cancelled",
        "is_over",
        "is_oversized",
        "is_repeated",
        "is_stray",
        "is_waiting",
        "moved_to",
        "moving",
        "payload",
        "pending",
        "pending_at",
        "probes",
        "record",
        "refusals",
        "results",
        "successes_then",
        "time_outs",
        "trace",
        "unfinished",
    )

    def __init__(
        self, record: ShareRecord, group: str, attempts_allowed: int, context: RetryContext | None = None
    ) -> None:
        self.record = record
        self.group = group
        self.context = context
        """What a copy in a retry topic says about the original record; None for the original itself."""
        self.attempt = 1 + (context.attempts if context else 0)
        """Which attempt this is: 1 for the first. Deliveries that ended without a result aren't attempts, unless there
        were so many that the record was moved to a retry topic because of that."""
        self.unfinished = context.unfinished if context else 0
        """How many attempts before this one ended without a result."""
        self.is_repeated = False
        """Whether the worker has called its handler for this delivery before."""
        self.is_stray = False
        """Whether it is in a retry topic, but no worker has written it: then there is no topic for copies of it."""
        self.is_at_end = False
        """Whether it is tried only because the worker ends, and would give it back untried otherwise."""
        self.is_oversized = False
        """Whether it is too large for its retry topic: then there is no topic for copies of it, either."""
        self.attempts_allowed = attempts_allowed
        self.payload: Any = None
        """The value, as the handler gets it."""
        self.decision: Decision | None = None
        """What its handler has decided."""
        self.decided: Decision | None = None
        """What has become of it."""
        self.probes = 0
        """How often it has failed while the circuit breaker was open."""
        self.time_outs = 0
        """How often its handler was cancelled because it took longer than its time limit, and the record was kept."""
        self.successes_then = 0
        """How many records the handler had processed when that happened last."""
        self.moved_to: tuple[str, int] | None = None
        """If it was moved out of the way while its handler runs: the id of the run, and the partition of its copies."""
        self.moving: anyio.Event | None = None
        """While it is being moved."""
        self.pending: Decision | None = None
        """What is to be done instead of processing it: write a copy that couldn't be written before."""
        self.pending_at = 0.0
        """When that is due."""
        self.refusals = 0
        """How often that has failed."""
        self.is_waiting = False
        """Whether it waits for a thread."""
        self.is_cancelled = False
        """Whether the result is no longer wanted: the lock was lost, or the worker is shutting down. A plain function
        can't be interrupted; a long one should check this."""
        self.is_over = False
        """Whether its handler has ended: tasks and threads that it has left behind can no longer decide anything."""
        self.results: list[Result] | None = None
        """What the handler has published, until it is written."""
        self.batch_results: BatchResults | None = None
        """What a batch handler has published for the whole batch."""
        self.trace: object = None
        """What a tracer has attached to it."""
        self._call_in_loop: Callable[[Callable[[], None]], None] | None = None

    # --- the record

    @property
    def topic(self) -> str:
        """The topic that the record was first written to."""
        return self.context.topic if self.context else self.record.topic

    @property
    def partition(self) -> int:
        return self.context.partition if self.context else self.record.partition

    @property
    def offset(self) -> int:
        return self.context.offset if self.context else self.record.offset

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970."""
        return self.context.timestamp if self.context else self.record.timestamp

    @property
    def key(self) -> bytes | None:
        return self.record.key

    @property
    def value(self) -> bytes | None:
        return self.record.value

    @property
    def headers(self) -> list[Header]:
        return own_headers(self.record.headers)

    @property
    def delivery_count(self) -> int:
        """How many times the broker has delivered the record, or its copy in a retry topic."""
        return self.record.delivery_count

    @property
    def redelivered(self) -> bool:
        """Whether its handler may have been called for the record before."""
        return self.is_repeated or self.context is not None or self.attempt > 1 or self.delivery_count > 1

    @property
    def is_new(self) -> bool:
        """Whether it comes for the first time, as far as anybody knows."""
        is_first = self.attempt == 1 and self.record.delivery_count == 1
        return is_first and self.context is None and self.pending is None

    @property
    def is_last_attempt(self) -> bool:
        """Whether the record won't be retried if this attempt fails."""
        return self.counted_attempt >= self.attempts_allowed

    @property
    def counted_attempt(self) -> int:
        """Which attempt this is for the retry policy, which doesn't count those that ended without a result."""
        return self.attempt - self.unfinished

    @property
    def was_tried(self) -> bool:
        """Whether this worker has called its handler for the record."""
        return self.is_over or self.is_repeated

    @property
    def is_settled(self) -> bool:
        """Whether the handler has decided what becomes of the record."""
        return self.decision is not None

    @property
    def is_accepted(self) -> bool:
        """Whether it has decided to accept it."""
        return self.decision is not None and self.decision.outcome is RecordOutcome.ACCEPTED

    @property
    def _chosen(self) -> str:
        assert self.decision is not None, "its handler has decided"
        outcome = self.decision.outcome
        return "delayed" if outcome is RecordOutcome.HELD else str(outcome)

    # --- decisions

    def accept(self) -> None:
        """Accept the record now, though the handler hasn't returned. If it raises afterwards, that's only logged.

        If it has published results, the record is accepted when they are written, after the handler has ended.
        """
        self._settle(self._accept)

    def release(self, delay: float | None = None) -> None:
        """Release the record when the handler has ended, so that any member of the group gets it again.

        With a delay in seconds, this worker holds the record as long, or moves it to a retry topic. That isn't counted
        as an attempt.

        In a function with `@idempotent`, the call doesn't count as done: the next attempt runs it again.
        """
        if delay is None:
            self._settle(lambda: self._decide(RELEASE))
        elif isinstance(delay, bool) or not isinstance(delay, int | float) or not 0 <= delay <= 86_400:
            raise ConfigError(f"delay must be between 0 and 86,400 seconds, not {delay!r}")
        else:
            self._settle(lambda: self._decide(Decision(RecordOutcome.HELD, delay)))
        give_up_results()

    def reject(self, reason: str = "rejected by its handler") -> None:
        """Reject the record when the handler has ended: it can never be processed. It becomes a dead letter, if the
        handler has a topic for them.

        In a function with `@idempotent`, the call doesn't count as done.
        """
        if not isinstance(reason, str):
            raise ConfigError(f"reason must be a string, not {type(reason).__name__}")
        self._settle(lambda: self._decide(Decision(RecordOutcome.REJECTED, reason=reason)))
        give_up_results()

    def publish(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        """Write a record to a topic when the handler has returned. Only when all in-sync replicas have it, the record
        of this delivery is accepted.

        Nothing is written if the handler raises, is cancelled, or releases or rejects its record. If writing fails, the
        handler has failed.
        """
        result = checked_result(topic, value, key, headers, partition)
        self._settle(lambda: self._keep(result))

    def renew(self) -> None:
        """Start the acquisition lock again. The worker does this automatically while the handler runs."""
        self._settle(self._renew)

    def _accept(self) -> None:
        if self.decision is None and self.moved_to is None and not self.has_unwritten:
            self.record.accept()
        self._decide(ACCEPT)

    @property
    def has_unwritten(self) -> bool:
        """Whether there are results that have to be confirmed before the record is accepted."""
        return bool(self.results) or (self.batch_results is not None and self.batch_results.are_unwritten)

    def _keep(self, result: Result) -> None:
        if self.decision is not None:
            raise KshareError(f"{self!r} is {self._chosen} already: publish its results before")
        if self.results is None:
            self.results = []
        self.results.append(result)

    def take_results(self) -> list[Result]:
        """What is to be written. Until that is done, the record isn't accepted, whatever the handler has decided."""
        if self.is_accepted and self.has_unwritten:
            self.decision = None
        results, self.results = self.results or [], None
        return results

    def accept_after_handler(self) -> None:
        """Accept the record, now that its handler has ended and its results are written."""
        if self.moved_to is None:
            self.record.accept()
        self.decision = ACCEPT

    @property
    def is_done_with(self) -> bool:
        """Whether it is settled, lost, or held for another attempt."""
        return self.decided is not None and self.decided.outcome is not RecordOutcome.KEPT

    def next_attempt(self, *, counts: bool) -> Delivery:
        """The same delivery by the broker, for another call of its handler."""
        again = Delivery(self.record, self.group, self.attempts_allowed, self.context)
        again.attempt = self.attempt + counts
        again.is_repeated = True
        again.is_stray = self.is_stray
        again.is_oversized = self.is_oversized
        again.probes = self.probes
        again.time_outs = self.time_outs
        again.successes_then = self.successes_then
        return again

    def _renew(self) -> None:
        if self.moved_to is None:
            self.record.renew()

    def _decide(self, decision: Decision) -> None:
        if self.decision is not None:
            raise KshareError(f"{self!r} is {self._chosen} already")
        self.decision = decision

    def _settle(self, act: Callable[[], None]) -> None:
        call = self._call_in_loop

        def settle() -> None:
            if self._call_in_loop is not call:
                raise KshareError(f"{self!r} can no longer be settled: its handler was cancelled")
            if self.is_over:
                what = "was cancelled" if self.is_cancelled else "has ended"
                raise KshareError(f"{self!r} can no longer be settled: its handler {what}")
            act()

        if call is None:
            settle()
        else:
            call(settle)

    def __repr__(self) -> str:
        return f"Delivery({self.topic}[{self.partition}]@{self.offset}, attempt {self.attempt})"


class Deliveries(list[Delivery]):
    """The deliveries of a batch. Each may be decided separately; these decide all that are undecided."""

    def __init__(self, deliveries: Iterable[Delivery] = ()) -> None:
        super().__init__(deliveries)
        self._whole = tuple(self)  # handlers may change the list
        self._results = (
            next((delivery.batch_results for delivery in self if delivery.batch_results), None)
            or BatchResults()
        )
        for delivery in self:
            delivery.batch_results = self._results

    def accept_all(self) -> None:
        """Accept them now."""
        for delivery in self._undecided():
            delivery.accept()

    def release_all(self, delay: float | None = None) -> None:
        """Release them when the handler has ended, or after a delay in seconds."""
        for delivery in self._undecided():
            delivery.release(delay)

    def reject_all(self, reason: str = "rejected by its handler") -> None:
        """Reject them when the handler has ended."""
        for delivery in self._undecided():
            delivery.reject(reason)

    def publish(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        """Write a result of the whole batch when the handler has returned. Only when all in-sync replicas have it, any
        record of the batch is accepted. If writing fails, the handler has failed.

        Nothing is written if all records are released or rejected. Publish before you accept any of them.
        """
        if not self._undecided():
            raise KshareError("all records of the batch are decided already: publish results before that")
        result = checked_result(topic, value, key, headers, partition)
        self._whole[0]._settle(lambda: self._keep(result))

    def _keep(self, result: Result) -> None:
        if any(delivery.is_accepted and not delivery.has_unwritten for delivery in self._whole):
            raise KshareError("records of the batch are accepted already: publish results before that")
        self._results.add(result)

    def _undecided(self) -> list[Delivery]:
        return [delivery for delivery in self if delivery.decision is None]


def copy_context(delivery: Delivery, attempts: int, due_ms: int) -> RetryContext:
    """What a copy of its record says at least."""
    return RetryContext(
        topic=delivery.topic,
        partition=delivery.partition,
        offset=delivery.offset,
        group=delivery.group,
        timestamp=delivery.timestamp,
        attempts=attempts,
        due_ms=due_ms,
    )


def set_caller(delivery: Delivery, call_in_loop: Callable[[Callable[[], None]], None] | None) -> None:
    """How decisions reach the event loop, while the handler runs in another thread."""
    delivery._call_in_loop = call_in_loop
