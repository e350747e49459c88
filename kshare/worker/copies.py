"""Moves records out of the way: a copy is written and confirmed, and only then the record is settled.

So a record is never lost: if the copy isn't confirmed, the record isn't settled. It is doubled only if the worker dies,
or the lock is lost, between the two steps; or if a write was made whose confirmation was lost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import anyio

from kshare.errors import AcknowledgeError, KshareError
from kshare.summary_log import SummaryLog
from kshare.worker.bounded_writes import BoundedWrites
from kshare.worker.delivery import Delivery
from kshare.worker.group_limits import ShareLimits
from kshare.worker.headers import Header, RetryContext, dead_letter_headers, own_bytes
from kshare.worker.log_context import log_fields
from kshare.worker.options import DeadLetterFunction
from kshare.worker.retry_topics import RetryTopics
from kshare.worker.user_functions import is_failure, message_of, require_ended

log = logging.getLogger("kshare.worker")

_KEEP_LIMIT_S = 30.0
"""How long a user's function may take to keep a dead letter. Then that is tried again later."""


class Copies:
    """For one handler. `wall_clock` is the time of day, in seconds since 1970."""

    def __init__(
        self,
        writes: BoundedWrites,
        limits: ShareLimits,
        *,
        handler: str,
        dead_letters: str | DeadLetterFunction | None,
        tiers: RetryTopics | None,
        log: SummaryLog,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.tiers = tiers
        self.has_dead_letters = dead_letters is not None
        self._writes = writes
        self._limits = limits
        self._handler = handler
        self._dead_letters = dead_letters
        self._log = log
        self._wall_clock = wall_clock

    async def move_to_retry_topic(
        self,
        delivery: Delivery,
        delay: float,
        *,
        counts: bool,
        error: BaseException | None = None,
        apart: int = 0,
    ) -> bool:
        """Returns False if the copy couldn't be written; then nothing was settled. `counts`: as an attempt."""
        assert self.tiers is not None, "checked by the caller"
        topic = self.tiers.topic(delivery.topic, self.tiers.tier_for(delay))
        due_ms = self._now_ms() + round(delay * 1000)
        context = self._context(delivery, due_ms, counts=counts, error=error)
        if apart:
            context = replace(context, apart=apart, unfinished=delivery.unfinished + 1)
        headers = [*delivery.headers, *context.headers()]
        with anyio.CancelScope(shield=True):
            if not await self._write(topic, delivery, headers):
                return False
            self._settle(delivery.record.accept, delivery)
        return True

    async def write_again(self, delivery: Delivery) -> bool:
        """Replace a copy that isn't due yet by another one. It is behind the first, as copies of the same run are."""
        record = delivery.record
        with anyio.CancelScope(shield=True):
            if not await self._write(record.topic, delivery, own_bytes(record.headers), record.partition):
                return False
            self._settle(record.accept, delivery)
        return True

    async def move_to_dead_letters(
        self, delivery: Delivery, message: str, error: BaseException | None
    ) -> bool:
        """As `move_to_retry_topic`. Without a topic for dead letters, the record is just rejected."""
        if callable(self._dead_letters):
            return await self._hand_over(self._dead_letters, delivery, message)
        if self._dead_letters is None:
            self._settle(delivery.record.reject, delivery)
            return True
        context = self._context(delivery, 0, counts=True, error=error)
        headers = [
            *delivery.headers,
            *dead_letter_headers(context, delivery.delivery_count, message, error, self._handler),
        ]
        with anyio.CancelScope(shield=True):
            if not await self._write(self._dead_letters, delivery, headers):
                return False
            # If brokers write dead letters for the group, rejecting would make a second one.
            is_doubled = self._limits.writes_dead_letters
            self._settle(delivery.record.accept if is_doubled else delivery.record.reject, delivery)
        return True

    async def _hand_over(self, keep: DeadLetterFunction, delivery: Delivery, message: str) -> bool:
        """Let the user's function keep it. Like a handler, it may be cancelled: then nothing is settled."""
        try:
            kept = await self._writes.call(partial(keep, delivery, message), _KEEP_LIMIT_S)
            require_ended(keep, kept, "dead_letters")
        except BaseException as problem:
            if not is_failure(problem):
                raise
            cause = f"records couldn't be kept by dead_letters ({type(problem).__qualname__}); this is tried again"
            detail = f"{delivery!r}: {message_of(problem)}"
            self._log.event(logging.ERROR, cause, detail, log_fields(delivery))
            log.debug("dead_letters failed for %r", delivery, exc_info=True)
            return False
        self._settle(delivery.record.reject, delivery)
        return True

    def _now_ms(self) -> int:
        return round(self._wall_clock() * 1000)

    def _context(
        self, delivery: Delivery, due_ms: int, *, counts: bool, error: BaseException | None
    ) -> RetryContext:
        return RetryContext(
            topic=delivery.topic,
            partition=delivery.partition,
            offset=delivery.offset,
            group=delivery.group,
            timestamp=delivery.timestamp,
            attempts=delivery.attempt if counts else delivery.attempt - 1,
            unfinished=delivery.unfinished,
            due_ms=due_ms,
            error=type(error).__qualname__ if error is not None else "",
        )

    async def _write(
        self, topic: str, delivery: Delivery, headers: list[Header], partition: int | None = None
    ) -> bool:
        try:
            await self._writes.publish(
                topic,
                key=delivery.key,
                value=delivery.value,
                headers=headers,
                timestamp=self._now_ms(),
                partition=partition,
            )
        except KshareError as problem:
            cause = f"records can't be copied to topic {topic}; this is tried again"
            self._log.event(logging.WARNING, cause, f"{delivery!r}: {problem}", log_fields(delivery))
            return False
        return True

    def _settle(self, act: Callable[[], None], delivery: Delivery) -> None:
        if delivery.moved_to is not None:
            return  # it was accepted when it was moved
        try:
            act()
        except AcknowledgeError:
            cause = "records lost their locks after they had been copied: they will be delivered again"
            self._log.event(logging.WARNING, cause, repr(delivery), log_fields(delivery))
