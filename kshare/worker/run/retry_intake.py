"""Takes copies from the retry topics of one delay, and holds them until they are due.

They pin nothing, since all copies in such a topic wait equally long.
"""

from __future__ import annotations

import logging

from anyio.abc import TaskGroup

from kshare.client.consumer import ShareConsumer
from kshare.client.record import ShareRecord
from kshare.errors import AcknowledgeError
from kshare.worker.records.headers import read_retry_context
from kshare.worker.rules.retry import LONGEST_DELAY_S
from kshare.worker.run.pipeline import Pipeline

MAX_COPIES = 500
"""How many copies of each delay are acquired at most before they are due."""


class RetryIntake:
    """For one delay. `consumer` reads its retry topics."""

    def __init__(self, pipeline: Pipeline, consumer: ShareConsumer) -> None:
        self._handler = pipeline.handler
        self._pipeline = pipeline
        self._consumer = consumer

    async def run(self, tasks: TaskGroup) -> None:
        """`tasks` moves copies that were delivered too often."""
        while True:
            batch = await self._consumer.next_batch()
            for record in self._pipeline.queue.read(batch):
                self._take(record, tasks)
            self._handler.changed.send()

    def _take(self, record: ShareRecord, tasks: TaskGroup) -> None:
        context = read_retry_context(record.headers)
        delivery = self._handler.route.deliver(record, context)
        if context is None:
            delivery.is_stray = True
            cause = (
                "records in retry topics that no worker has written are processed as if they had just arrived, and "
                "never moved to a retry topic"
            )
            self._handler.log(logging.WARNING, cause, delivery)
        if context is not None and (context.is_over or context.group != self._handler.route.group):
            try:
                record.accept()
            except AcknowledgeError as problem:
                self._pipeline.executor.on_lost(delivery, problem)
            return
        if record.delivery_count >= self._handler.limits.last_safe_delivery and not delivery.is_stray:
            tasks.start_soon(self._pipeline.processing.move_away, delivery)
            return
        wait_s = max(0.0, context.due_ms / 1000 - self._handler.wall_clock()) if context else 0.0
        if not self._consumer.can_renew:
            wait_s = min(wait_s, self._handler.limits.holdable_s)
        self._pipeline.queue.hold_copy(delivery, self._handler.clock() + min(wait_s, LONGEST_DELAY_S))
