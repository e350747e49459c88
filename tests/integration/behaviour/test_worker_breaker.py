"""A dependency that is down for a while: nothing becomes a dead letter, and work goes on soon after its return."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from kshare import Producer
from kshare.worker import Breaker, Retry, Worker
from tests.helpers.committed import records_in
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import DEADLINE_S, WorkQueue, in_thread
from tests.integration.reporting import say, write_section

pytestmark = [pytest.mark.kafka, pytest.mark.anyio]

REPORT = Path("worker-breaker.md")
RATE, DOWN_S = 1000, 60.0
AFTER_RETURN_S = 5.0


@dataclass
class Dependency:
    """What the handler needs. Counts the records that were processed."""

    queue: WorkQueue
    is_up: bool = True
    tries: int = 0
    done: set[int] = field(default_factory=set)

    @property
    def dead(self) -> str:
        return f"{self.queue.topic}-dead"

    async def use(self, number: int) -> None:
        self.tries += not self.is_up
        await anyio.sleep(0.001)
        if not self.is_up:
            raise ConnectionError
        self.done.add(number)

    async def until_done(self, records: int, deadline_s: float = DEADLINE_S) -> None:
        with anyio.fail_after(deadline_s):
            while len(self.done) < records:
                await anyio.sleep(0.01)

    @asynccontextmanager
    async def worker(self, breaker: Breaker) -> AsyncIterator[Worker]:
        """A worker whose records have two attempts."""
        await in_thread(self.queue.broker.create_topic, self.dead)
        worker = Worker(
            self.queue.broker.bootstrap,
            group=self.queue.group,
            concurrency=20,
            retry=Retry(attempts=2, delay=2.0),  # on a busy machine, the breaker opens later than after 0.1 s
            dead_letters=self.dead,
            breaker=breaker,
        )

        @worker.handler(self.queue.topic)
        async def process(number: int) -> None:
            await self.use(number)

        async with anyio.create_task_group() as tasks:
            await tasks.start(worker.serve)
            yield worker
            worker.stop()


async def test_a_dependency_that_was_down_leaves_no_dead_letters(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(partitions=2)
    dependency = Dependency(queue)
    async with dependency.worker(Breaker(min_failures=5, probe_after=0.1)) as worker:
        await queue.produce(200)
        await dependency.until_done(200)
        dependency.is_up = False
        await queue.produce(500)
        with anyio.fail_after(DEADLINE_S):
            while dependency.tries < 50:  # more than there can be before it opens, so some are probes
                await anyio.sleep(0.01)
        assert worker.runners[0].breaker_state != "closed"
        dependency.is_up = True
        await dependency.until_done(700)
    assert await records_in(queue.broker.bootstrap, dependency.dead) == []


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.release("4.3.1", "embedded")
async def test_a_minute_without_the_dependency(
    fresh_queue: FreshQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = fresh_queue(partitions=2)
    dependency = Dependency(queue)
    sent, is_over = 0, False

    async def produce() -> None:
        nonlocal sent
        began = anyio.current_time()
        async with Producer(queue.broker.bootstrap) as producer:
            while not is_over:
                for _ in range(round((anyio.current_time() - began) * RATE) - sent):
                    await producer.enqueue(queue.topic, b"%d" % sent)
                    sent += 1
                await anyio.sleep(0.05)

    async with dependency.worker(Breaker()) as worker, anyio.create_task_group() as tasks:
        tasks.start_soon(produce)
        await dependency.until_done(3 * RATE)
        dependency.is_up = False
        await anyio.sleep(DOWN_S)
        dependency.is_up = True
        returned, before, waiting = anyio.current_time(), len(dependency.done), sent - len(dependency.done)
        await dependency.until_done(before + 1)
        first_s = anyio.current_time() - returned
        with anyio.fail_after(DEADLINE_S):
            while sent - len(dependency.done) > RATE:
                await anyio.sleep(0.01)
        caught_up_s = anyio.current_time() - returned
        is_over = True
        await anyio.sleep(1.0)  # the producer writes what it has
        await dependency.until_done(sent)
        counts = worker.runners[0].counts
        await anyio.sleep(1.0)
    letters = await records_in(queue.broker.bootstrap, dependency.dead)
    report = (
        f"The dependency was down for {DOWN_S:g} s, at {RATE:,} records a second. Meanwhile the handler was tried "
        f"{dependency.tries} times, and {waiting:,} records waited.\n\n"
        f"Dead letters: {len(letters)}. The first record was processed {first_s:.2f} s after the return, and after "
        f"{caught_up_s:.1f} s the worker had caught up. {len(dependency.done):,} of {sent:,} records were "
        "processed.\n\n"
        f"`{counts}`"
    )
    say(capsys, report)
    embedded = queue.broker.release in ("4.1", "4.3", "4.4")
    name = "The embedded broker" if embedded else f"Kafka {queue.broker.release}"
    write_section(REPORT, "A dependency is down for a minute", name, report)
    assert letters == []
    assert first_s < AFTER_RETURN_S
    assert len(dependency.done) == sent
