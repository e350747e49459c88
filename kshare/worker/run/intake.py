"""Takes records from the consumer of a handler's topics into its queue: as many as are needed.

After a start, these are few until one has succeeded: one at first, and then twice as many each `_STEP_S`. If what the
handler depends on is down, or the worker ends soon, the others haven't lost a delivery.
"""

from __future__ import annotations

from anyio.abc import TaskGroup

from kshare.client.consumer import ShareConsumer, source_of
from kshare.engine.notifier import Notifier
from kshare.worker.functions.concurrently import for_each
from kshare.worker.records.delivery import Delivery
from kshare.worker.run.pipeline import Pipeline
from kshare.worker.run.slots import Slots

_HORIZON_S = 0.25
"""How much work to have ready, in seconds."""
_MOST_RECORDS = 1_000_000
_STEP_S = 0.1
_MOST_STEPS = 20


class Intake:
    """Send `wants` when it should look whether more records are needed."""

    def __init__(self, pipeline: Pipeline, consumer: ShareConsumer, slots: Slots, wants: Notifier) -> None:
        self._handler = pipeline.handler
        self._route = pipeline.handler.route
        self._host = pipeline.handler.host
        self._clock = pipeline.handler.clock
        self._pipeline = pipeline
        self._queue = pipeline.queue
        self._admission = pipeline.admission
        self._consumer = consumer
        self._slots = slots
        self._wants = wants
        self._wants_fresh = False
        """While the breaker is open: a record is to be acquired, to probe with."""
        self._first_at: float | None = None
        """When the first records were acquired."""
        self._allowed_for = 0
        """How many records that can't be processed now the consumer has room for, besides others."""
        self._rate = 0.0
        self._counted = (0.0, 0)

    async def run(self, tasks: TaskGroup) -> None:
        """`tasks` moves records that were delivered too often."""
        while True:
            while True:
                wanted = self._wants.next()
                if self._wants_fresh or self._takes_in:
                    break
                await wanted.wait()
            if not self._wants_fresh:
                self._adjust()
            batch = await self._consumer.next_batch()
            if self._first_at is None:
                self._first_at = self._clock()
            if (
                self._route.options.tiers is None
                or batch.delivery_count < self._handler.limits.last_safe_delivery
            ):
                self._queue.take_in(batch)
            else:
                self._move_away([self._route.deliver(record) for record in self._queue.read(batch)], tasks)
            if self._wants_fresh:
                self._wants_fresh = False
                if self._admission.is_stopped:
                    self._consumer.pause()
            self._host.wake()

    @property
    def _takes_in(self) -> bool:
        """Whether to ask for the next batch. While nothing may start, all that was acquired is taken in: the consumer
        renews the locks of what it has handed out, and releases what waits in it for long."""
        admission = self._admission
        if self._consumer.can_renew:
            if admission.may_start and not self._host.is_stuck:
                return self._queue.batches < 2
            return not self._consumer.is_drained
        # What waits in the consumer loses its lock, too. While the consumer is paused, this fetches nothing.
        return admission.may_start or (admission.is_stopped and not self._consumer.is_drained)

    def _move_away(self, deliveries: list[Delivery], tasks: TaskGroup) -> None:
        """Move records that were often delivered, without waiting for a slot.

        If a record kills its process soon after each start, others have only that time to get away.
        """
        tasks.start_soon(
            for_each, [(delivery,) for delivery in deliveries], self._pipeline.processing.move_away
        )

    def make_room(self) -> None:
        """If more records can't be processed now than there is room for: the consumer waits for that. After a start,
        there is more room each time."""
        is_full = self._queue.unavailable > self._allowed_for
        if (is_full or not self._handler.counts.done) and self._admission.may_start and not self._wants_fresh:
            self._adjust()

    def _adjust(self) -> None:
        """Let the consumer hold what is being processed, what is held back, and as much again as is done shortly."""
        now, done = self._clock(), self._handler.counts.done
        at, before = self._counted
        if now - at >= _HORIZON_S:
            self._rate = (done - before) / (now - at)
            self._counted = (now, done)
        wanted = max(self._slots.most, int(self._rate * _HORIZON_S)) + self._route.surplus
        if not done:
            wanted = min(wanted, self._first_steps(now))
        self._allowed_for = self._queue.unavailable
        self._consumer.set_max_records(min(_MOST_RECORDS, self._allowed_for + wanted))

    def _first_steps(self, now: float) -> int:
        """How many records to have as long as none has succeeded."""
        steps = 0 if self._first_at is None else int((now - self._first_at) / _STEP_S)
        at_once = self._route.options.batch_size if self._route.is_batch else 1
        return at_once << min(steps, _MOST_STEPS)

    def get_fresh(self) -> None:
        """Acquire something to probe with. All records in hand have failed, but others may do better.

        Each time: the breaker may have closed and opened since, which has paused the consumer. What is being processed
        takes room, too: calls that hang may take turns for ever.
        """
        self._wants_fresh = True
        self._consumer.set_max_records(source_of(self._consumer).undecided() + 1)
        self._consumer.resume()
        self._wants.send()
