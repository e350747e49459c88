"""Long runs that were moved out of the way: their record doesn't pin the in-flight window while the handler continues.

    moved    → a copy is written to the shortest retry topic, with the id of the run; then the record is accepted
    running  → another copy now and then, each due a while later than the last
    over     → a mark; before it, what else there is to write: a dead letter, or a copy for the next attempt

All of these are in one partition. Whoever holds a copy looks there when it is due: if the log has something later of
the same run, the copy is out of date and accepted. If not, the worker that ran it has died, and the record is processed
again. So it is never lost, and processed twice only if its worker dies, or can't write for as long as a copy takes to
become due.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio

from kshare.errors import AcknowledgeError, KshareError
from kshare.producer.records import NewRecord, Produced
from kshare.summary_log import SummaryLog
from kshare.surroundings import random_bytes, wall_time
from kshare.worker.records.delivery import Delivery
from kshare.worker.records.headers import Header, RetryContext, run_mark
from kshare.worker.rules.retry_topics import RetryTopics
from kshare.worker.settle.outbound import Publisher
from kshare.worker.watch.log_context import log_fields

SHORTEST_S = 15.0
"""How long a copy takes to become due, at least."""
BEATS = 3
"""How many copies are written in the time that one takes to become due."""


class MovedRuns:
    """For one handler. `topic` of a record is the one that it was first written to."""

    def __init__(
        self,
        publisher: Publisher,
        tiers: RetryTopics,
        summary: SummaryLog,
        wall_clock: Callable[[], float] = wall_time,
    ) -> None:
        self._publisher = publisher
        self._tiers = tiers
        self._summary = summary
        self._wall_clock = wall_clock
        self.due_s = max(SHORTEST_S, tiers.tiers[0])
        """How long a copy takes to become due."""

    def _now_ms(self) -> int:
        return round(self._wall_clock() * 1000)

    async def move(self, delivery: Delivery) -> bool:
        """Write the first copy, and accept the record. Returns False if nothing was settled."""
        run = random_bytes(16).hex()
        with anyio.CancelScope(shield=True):
            try:
                written = await self._write_copy(delivery, run, None)
            except KshareError as problem:
                self._summary.event(
                    logging.WARNING,
                    "records can't be moved out of the way",
                    f"{delivery!r}: {problem}",
                    log_fields(delivery),
                )
                return False
            if delivery.decision is not None or delivery.is_over:
                await self._mark(delivery, run, written.partition)
                return False
            try:
                delivery.record.accept()
            except AcknowledgeError as problem:
                self._summary.event(
                    logging.WARNING,
                    "records lost their locks while being moved",
                    f"{delivery!r}: {problem}",
                    log_fields(delivery),
                )
                return False
            delivery.moved_to = (run, written.partition)
        return True

    async def keep(self, delivery: Delivery) -> None:
        """Write further copies, until cancelled."""
        assert delivery.moved_to is not None, "moved before"
        run, partition = delivery.moved_to
        while True:
            await anyio.sleep(self.due_s / BEATS)
            try:
                await self._write_copy(delivery, run, partition)
            except KshareError as problem:
                self._summary.event(
                    logging.WARNING,
                    "records can't be copied while their handler runs; after a while, they may be processed again",
                    f"{delivery!r}: {problem}",
                    log_fields(delivery),
                )

    async def finish(self, delivery: Delivery) -> None:
        """The run is over, and what became of it is written."""
        assert delivery.moved_to is not None, "moved before"
        run, partition = delivery.moved_to
        with anyio.CancelScope(shield=True):
            await self._mark(delivery, run, partition)

    async def is_over(self, delivery: Delivery) -> bool:
        """Whether a copy that is due is out of date."""
        assert delivery.context is not None, "a copy"
        record = delivery.record
        return await self._publisher.has_later(
            record.topic, record.partition, record.offset, run_mark(delivery.context.run)
        )

    async def _write_copy(self, delivery: Delivery, run: str, partition: int | None) -> Produced:
        context = RetryContext(
            topic=delivery.topic,
            partition=delivery.partition,
            offset=delivery.offset,
            group=delivery.group,
            timestamp=delivery.timestamp,
            attempts=delivery.attempt,
            unfinished=delivery.unfinished + 1,  # it is only used if this one doesn't end
            due_ms=self._now_ms() + round(self.due_s * 1000),
            run=run,
        )
        return await self._publish(
            delivery, delivery.value, [*delivery.headers, *context.headers()], partition
        )

    async def _mark(self, delivery: Delivery, run: str, partition: int) -> None:
        context = RetryContext(
            topic=delivery.topic,
            partition=delivery.partition,
            offset=delivery.offset,
            group=delivery.group,
            timestamp=delivery.timestamp,
            attempts=delivery.attempt,
            due_ms=0,
            run=run,
            is_over=True,
        )
        try:
            await self._publish(delivery, None, context.headers(), partition)
        except KshareError as problem:
            self._summary.event(
                logging.WARNING,
                "records are processed, but will be again: this can't be written",
                f"{delivery!r}: {problem}",
                log_fields(delivery),
            )

    async def _publish(
        self, delivery: Delivery, value: bytes | None, headers: list[Header], partition: int | None
    ) -> Produced:
        topic = self._tiers.topic(delivery.topic, self._tiers.tiers[0])
        record = NewRecord(value, delivery.key, headers, self._now_ms())
        return await self._publisher.publish(topic, record, partition)
