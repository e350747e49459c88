"""Takes copies from the retry topics of one delay, and holds them until they are due.

They pin nothing, since all copies in such a topic wait equally long.
"""

from __future__ import annotations

import logging

from anyio.abc import TaskGroup

from kshare.client.consumer import ShareConsumer
from kshare.client.record import ShareRecord
from kshare.errors import AcknowledgeError
from kshare.worker.handlers.routes import Route
from kshare.worker.host import Clocks
from kshare.worker.records.headers import read_retry_context
from kshare.worker.rules.limits import ShareLimits
from kshare.worker.rules.retry import LONGEST_DELAY_S
from kshare.worker.run.pipeline import Pipeline
from kshare.worker.watch.log_context import log_fields

MAX_COPIES = 500
"""How many copies of each delay are acquired at most before they are due."""


class RetryIntake:
    """For one delay of a handler. `consumer` reads its retry topics."""

    def __init__(
        self,
        route: Route,
        pipeline: Pipeline,
        limits: ShareLimits,
        consumer: ShareConsumer,
        clocks: Clocks,
    ) -> None:
        self._route = route
        self._pipeline = pipeline
        self._limits = limits
        self._consumer = consumer
        self._clocks = clocks

    async def run(self, tasks: TaskGroup) -> None:
        """`tasks` moves copies that were delivered too often."""
        while True:
            batch = await self._consumer.next_batch()
            for record in self._pipeline.queue.read(batch):
                self._take(record, tasks)
            self._pipeline.changed.send()

    def _take(self, record: ShareRecord, tasks: TaskGroup) -> None:
        context = read_retry_context(record.headers)
        delivery = self._route.deliver(record, context)
        if context is None:
            delivery.is_stray = True
            self._pipeline.summary.event(
                logging.WARNING,
                "records in retry topics that no worker has written are processed as if they had just arrived, and "
                "never moved to a retry topic",
                repr(delivery),
                log_fields(delivery),
            )
        if context is not None and (context.is_over or context.group != self._route.group):
            try:
                record.accept()
            except AcknowledgeError as problem:
                self._pipeline.executor.on_lost(delivery, problem)
            return
        if record.delivery_count >= self._limits.last_safe_delivery and not delivery.is_stray:
            tasks.start_soon(self._pipeline.processing.move_away, delivery)
            return
        wait_s = max(0.0, context.due_ms / 1000 - self._clocks.wall()) if context else 0.0
        if not self._consumer.can_renew:
            wait_s = min(wait_s, self._limits.holdable_s)
        self._pipeline.queue.hold_copy(delivery, self._clocks.loop() + min(wait_s, LONGEST_DELAY_S))
