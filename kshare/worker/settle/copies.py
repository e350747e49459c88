"""Moves records out of the way: a copy is written and confirmed, and only then the record is settled.

So a record is never lost: if the copy isn't confirmed, the record isn't settled. There are two of it only if the
worker dies, or the lock is lost, between the two steps; or if a write was made whose confirmation was lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from enum import Enum, auto
from functools import partial

import anyio

from kshare.errors import AcknowledgeError, BrokerError, KshareError
from kshare.producer.records import NewRecord
from kshare.protocol.error_codes import ErrorCode
from kshare.worker.functions.user_functions import (
    exception_name,
    is_failure,
    message_of,
    require_ended,
    shortened,
)
from kshare.worker.handlers.options import DeadLetterFunction
from kshare.worker.host import RunningHandler
from kshare.worker.records.delivery import Delivery, copy_context
from kshare.worker.records.headers import (
    Header,
    RetryContext,
    dead_letter_headers,
    own_bytes,
    truncation_header,
)
from kshare.worker.rules.decision import Decision, RecordOutcome
from kshare.worker.settle.bounded_writes import BoundedWrites
from kshare.worker.settle.keep_calls import KeepCalls

log = logging.getLogger("kshare.worker")

_KEEP_LIMIT_S = 30.0
"""How long a user's function may take to keep a dead letter. Then that is tried again later."""
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class Written(Enum):
    """What became of a copy. Unless it was written, its record isn't settled."""

    YES = auto()
    NO = auto()
    """It may be tried again."""
    TOO_LARGE = auto()
    """The topic doesn't take it as it is."""


class Copies:
    """For one handler."""

    def __init__(self, handler: RunningHandler, writes: BoundedWrites, keep_calls: KeepCalls) -> None:
        self._handler = handler
        self._tiers = handler.options.tiers
        self._dead_letters = handler.options.dead_letters
        self._oversized = handler.options.oversized_dead_letters
        self._writes = writes
        self._keep_calls = keep_calls

    async def move_to_retry_topic(self, delivery: Delivery, decision: Decision) -> Written:
        if decision.is_again:
            return await self._write_again(delivery)
        assert self._tiers is not None, "the rules have looked"
        topic = self._tiers.topic(delivery.topic, self._tiers.tier_for(decision.delay))
        due_ms = self._handler.now_ms() + round(decision.delay * 1000)
        context = self._context(delivery, due_ms, counts=decision.counts, error=decision.error)
        if decision.apart:
            context = replace(context, apart=decision.apart, unfinished=delivery.unfinished + 1)
        headers = [*delivery.headers, *context.headers()]
        with anyio.CancelScope(shield=True):
            written = await self._write(topic, delivery, headers)
            if written is Written.YES:
                self._settle(delivery.record.accept, delivery)
        if written is Written.TOO_LARGE:
            cause = f"records are too large for topic {topic} (raise its max.message.bytes)"
            if delivery.moved_to is None:
                cause += "; they are held here until their next attempt"
            self._handler.log(logging.WARNING, cause, delivery)
        return written

    async def _write_again(self, delivery: Delivery) -> Written:
        """Replace a copy that isn't due yet by another one. It is behind the first, as copies of the same run are."""
        record = delivery.record
        with anyio.CancelScope(shield=True):
            written = await self._write(record.topic, delivery, own_bytes(record.headers), record.partition)
            if written is Written.YES:
                self._settle(record.accept, delivery)
        return written

    async def move_to_dead_letters(self, delivery: Delivery, decision: Decision) -> RecordOutcome | None:
        """Returns what has become of it: None if nothing was settled, because the dead letter couldn't be written, or
        kept by the user's function. Without a topic for dead letters, the record is just rejected."""
        message, error = decision.reason, decision.error
        if error is not None and message_of(error) not in ("", shortened(message)):
            message = f"{message}: {message_of(error)}"  # not in the log, which counts lines by what they say
        if callable(self._dead_letters):
            is_kept = await self._hand_over(self._dead_letters, delivery, message)
            return RecordOutcome.DEAD_LETTER if is_kept else None
        if self._dead_letters is None:
            self._settle(delivery.record.reject, delivery)
            return RecordOutcome.REJECTED
        context = self._context(delivery, 0, counts=decision.counts, error=error)
        headers = [
            *delivery.headers,
            *dead_letter_headers(context, delivery.delivery_count, message, error, self._handler.route.name),
        ]
        with anyio.CancelScope(shield=True):
            written = await self._write(self._dead_letters, delivery, headers)
            if written is Written.TOO_LARGE:
                return await self._settle_oversized(self._dead_letters, delivery, headers)
            if written is Written.YES:
                self._settle_dead(delivery)
                return RecordOutcome.DEAD_LETTER
        return None

    def _settle_dead(self, delivery: Delivery) -> None:
        """Its dead letter is written."""
        # If brokers write dead letters for the group, rejecting would make a second one.
        would_be_two = self._handler.limits.writes_dead_letters
        self._settle(delivery.record.accept if would_be_two else delivery.record.reject, delivery)

    async def _settle_oversized(
        self, topic: str, delivery: Delivery, headers: list[Header]
    ) -> RecordOutcome | None:
        """The topic doesn't take the dead letter: do what the user has chosen. Returns None if nothing was settled."""
        if self._oversized == "reject":
            cause = (
                f"rejected without a dead letter, because they are too large for topic {topic} "
                '(oversized_dead_letters="reject")'
            )
            self._handler.log(logging.ERROR, cause, delivery)
            self._settle(delivery.record.reject, delivery)
            return RecordOutcome.REJECTED
        size = len(delivery.value or b"") if self._oversized == "truncate" else 0
        headers = [*headers, truncation_header(size)]
        while size:
            size //= 2
            written = await self._write(topic, delivery, headers, longest=size)
            if written is Written.YES:
                cause = f"dead letters were truncated, because they are too large for topic {topic}"
                self._handler.log(logging.WARNING, cause, delivery)
                self._settle_dead(delivery)
                return RecordOutcome.DEAD_LETTER
            if written is Written.NO:
                return None
        cause = (
            f"dead letters are too large for topic {topic}, and their records are held: raise its max.message.bytes, "
            'or set oversized_dead_letters to "reject" or "truncate"'
        )
        self._handler.log(logging.ERROR, cause, delivery)
        return None

    async def _hand_over(self, keep: DeadLetterFunction, delivery: Delivery, message: str) -> bool:
        """Let the user's function keep it. Like a handler, it may be cancelled: then nothing is settled."""
        try:
            call = partial(self._keep_calls.call, delivery, partial(keep, delivery, message))
            kept = await self._writes.call(call, _KEEP_LIMIT_S)
            require_ended(keep, kept, "dead_letters")
        except BaseException as problem:
            if not is_failure(problem):
                raise
            cause = f"records couldn't be kept by dead_letters ({exception_name(problem)}); retrying"
            self._handler.log(logging.ERROR, cause, delivery, message_of(problem))
            log.debug("dead_letters failed for %r", delivery, exc_info=True)
            return False
        self._settle(delivery.record.reject, delivery)
        return True

    def _context(
        self, delivery: Delivery, due_ms: int, *, counts: bool, error: BaseException | None
    ) -> RetryContext:
        return replace(
            copy_context(delivery, delivery.attempt if counts else delivery.attempt - 1, due_ms),
            unfinished=delivery.unfinished,
            error=exception_name(error) if error is not None else "",
        )

    async def _write(
        self,
        topic: str,
        delivery: Delivery,
        headers: list[Header],
        partition: int | None = None,
        *,
        longest: int | None = None,
    ) -> Written:
        """`longest`: cut the value after so many bytes."""
        value = delivery.value if longest is None else (delivery.value or b"")[:longest]
        try:
            await self._writes.publish(
                topic, NewRecord(value, delivery.key, headers, self._handler.now_ms()), partition
            )
        except KshareError as problem:
            if isinstance(problem, BrokerError) and problem.code in _TOO_LARGE:
                return Written.TOO_LARGE
            cause = f"records can't be copied to topic {topic}; retrying"
            self._handler.log(logging.WARNING, cause, delivery, problem)
            return Written.NO
        return Written.YES

    def _settle(self, act: Callable[[], None], delivery: Delivery) -> None:
        if delivery.moved_to is not None:
            return  # it was accepted when it was moved
        try:
            act()
        except AcknowledgeError:
            cause = "records lost their locks after they had been copied: they will be redelivered"
            self._handler.log(logging.WARNING, cause, delivery)
