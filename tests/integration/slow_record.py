"""One slow record among others in a partition: consumers that deal with it in different ways, and their throughput.

All run side by side in one process, each with a topic and a group of its own, so a slow machine slows all of them. The
handler waits, so what limits the throughput is its concurrency, not the machine; and more is produced than that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio

from kshare import Producer, ShareConsumer
from kshare.client.record import ShareRecord
from kshare.worker import Retry, Worker

SLOW, OTHER = b"slow", b"."
CONCURRENCY, WORK_S = 50, 0.1
PRODUCED_A_SECOND = 600
"""A fifth more than can be processed."""
_PORTION_S = 0.05


@dataclass
class Lane:
    """A topic with one partition, and who consumes it."""

    name: str
    topic: str
    seconds: float
    """How long the slow record takes."""
    done: int = 0
    """How many other records were processed."""
    slices: list[int] = field(default_factory=list)
    """The same, in each slice of the time."""
    slow_began: float | None = None
    slow_ended: float | None = None

    @property
    def group(self) -> str:
        return f"{self.topic}-group"

    async def work(self, value: bytes, slow: Callable[[], Awaitable[None]]) -> None:
        """What a handler does."""
        if value == SLOW:
            await slow()
        else:
            await anyio.sleep(WORK_S)
            self.done += 1

    async def back_off(self) -> None:
        """The slow record fails, and succeeds the next time."""
        if self.slow_began is None:
            self.slow_began = anyio.current_time()
            raise ConnectionError
        self.slow_ended = anyio.current_time()

    async def take_long(self) -> None:
        """The handler of the slow record takes long."""
        self.slow_began = anyio.current_time()
        await anyio.sleep(self.seconds)
        self.slow_ended = anyio.current_time()


def worker_for(lane: Lane, bootstrap: str, slow: Callable[[], Awaitable[None]]) -> Worker:
    worker = Worker(
        bootstrap,
        group=lane.group,
        concurrency=CONCURRENCY,
        retry=Retry(delay=lane.seconds),
        retry_topics=True,
        move_runs=True,
        time_limit=2 * lane.seconds,
        drain_timeout=1.0,
    )

    @worker.handler(lane.topic)
    async def process(value: bytes) -> None:
        await lane.work(value, slow)

    return worker


async def consume_plainly(lane: Lane, bootstrap: str) -> None:
    """A consumer that holds the slow record, and renews it, while it goes on with the others."""
    async with (
        ShareConsumer(
            bootstrap,
            group=lane.group,
            topics=[lane.topic],
            acknowledgement="explicit",
            max_lease_seconds=2 * lane.seconds,
        ) as consumer,
        anyio.create_task_group() as tasks,
    ):
        async for batch in consumer.batches():
            others: list[ShareRecord] = []
            for record in batch:
                if record.value == SLOW:
                    tasks.start_soon(_hold, lane, record)
                else:
                    others.append(record)
            for first in range(0, len(others), CONCURRENCY):
                await anyio.sleep(WORK_S)
                for record in others[first : first + CONCURRENCY]:
                    record.accept()
                    lane.done += 1


async def _hold(lane: Lane, record: ShareRecord) -> None:
    await lane.take_long()
    record.accept()


async def produce_to(lanes: list[Lane], bootstrap: str) -> None:
    """Produce to all lanes alike, until cancelled. The slow record comes after a second."""
    began = anyio.current_time()
    sent = 0
    async with Producer(bootstrap) as producer:
        for lane in lanes:
            await producer.enqueue(lane.topic, OTHER)
        while True:
            wanted = round((anyio.current_time() - began) * PRODUCED_A_SECOND)
            for lane in lanes:
                for number in range(sent, wanted):
                    await producer.enqueue(lane.topic, SLOW if number == PRODUCED_A_SECOND else OTHER)
            sent = max(sent, wanted)
            await anyio.sleep(_PORTION_S)


async def count_slices(lanes: list[Lane], seconds: float, slices: int) -> None:
    """Note how much each lane gets done while the slow record is slow."""
    began = anyio.current_time()
    for number in range(1, slices + 1):
        before = [lane.done for lane in lanes]
        await anyio.sleep_until(began + number * seconds / slices)
        for lane, earlier in zip(lanes, before, strict=True):
            lane.slices.append(lane.done - earlier)
