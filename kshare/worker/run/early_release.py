"""Gives records back in time where locks can't be renewed: Kafka 4.1 delivers whole batches, however large.

If locks expired, or records were released, that would use up a delivery each time, until the broker archives what
nobody has seen. What comes back because its share session has ended has used up none. So shortly before a lock expires:
start nothing more → let handlers finish → cancel the rest → end the sessions → go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import anyio
from anyio.abc import TaskGroup

from kshare.client.consumer import ShareConsumer, source_of
from kshare.worker.functions.concurrently import for_each
from kshare.worker.run.pipeline import Pipeline
from kshare.worker.run.slots import Slots

_POLL_S = 0.02


class EarlyRelease:
    """`consumers` are all that the handler has at the moment."""

    def __init__(
        self, pipeline: Pipeline, slots: Slots, consumers: Callable[[], Sequence[ShareConsumer]]
    ) -> None:
        self._handler = pipeline.handler
        self._pipeline = pipeline
        self._slots = slots
        self._consumers = consumers

    def look(self, now: float, tasks: TaskGroup) -> None:
        """Begin if anything waits that won't get its turn before its lock expires."""
        admission, give_back_s = self._pipeline.admission, self._handler.limits.give_back_s
        if not admission.is_held_up and self._pipeline.queue.has_waiting(now + give_back_s):
            admission.hold_up()
            tasks.start_soon(self._give_back, now + give_back_s / 2)

    async def _give_back(self, until: float) -> None:
        """Handlers may finish as long as there is time. What is cancelled then has used up a delivery."""
        await self._slots_idle(until)
        self._slots.cancel_handlers()  # not what is being settled: that would be done twice
        await self._slots_idle(until + self._handler.limits.give_back_s / 4)
        executor = self._pipeline.executor
        waiting = [*self._pipeline.queue.take_all()]
        # Only a copy remembers its attempts.
        moved = [
            (delivery, max(0.0, due_at - self._handler.clock()))
            for delivery, due_at in waiting
            if delivery.context is None and delivery.attempt > 1 and executor.has_retry_topic(delivery)
        ]
        await for_each(moved, executor.hand_back)
        async with anyio.create_task_group() as tasks:
            for consumer in self._consumers():
                tasks.start_soon(source_of(consumer).restart_sessions)
        lock_s = self._handler.limits.lock_s
        self._handler.summary.event(
            logging.WARNING,
            f"gave records back, because they can't all be processed within their lock ({lock_s:g} s, and "
            "these brokers can't renew it): produce smaller batches (batch.size), or raise "
            "share.record.lock.duration.ms or the concurrency",
            f"{len(waiting):,} records",
        )
        self._pipeline.admission.go_on()

    async def _slots_idle(self, until: float) -> None:
        while self._slots.busy and self._handler.clock() < until:  # noqa: ASYNC110  not for long
            await anyio.sleep(_POLL_S)
