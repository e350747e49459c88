"""Workers of one group: a record that one of them holds, or works on for long, doesn't stop the others."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from kshare.worker import Retry, RetryTopics, Worker
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import DEADLINE_S, WorkQueue

pytestmark = [pytest.mark.kafka, pytest.mark.anyio, pytest.mark.release("4.3.1", "4.4.0", "embedded")]

RECORDS = 6_000
"""Three times the window. The first one is the slow one."""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["is held", "runs for long"])
async def test_what_one_worker_pins_makes_way_for_the_others(fresh_queue: FreshQueue, how: str) -> None:
    queue = fresh_queue()
    holder = Worker(
        queue.broker.bootstrap,
        group=queue.group,
        concurrency=1,
        retry=Retry(attempts=2, delay=600),
        retry_topics=RetryTopics(tiers=(600.0,)),
        hold_up_to=3600,
        move_runs=True,
        breaker=None,
    )
    is_over = anyio.Event()

    @holder.handler(queue.topic)
    async def hold(number: int) -> None:
        if number == 0 and how == "is held":
            raise ValueError
        await is_over.wait()

    await queue.produce(2)
    others = [_quick(queue), _quick(queue)]
    async with anyio.create_task_group() as tasks:
        await tasks.start(holder.serve)
        [first] = holder.runners
        await _until(lambda: first.running == 1 and (how != "is held" or first.counts.held == 1))
        for other in others:
            await tasks.start(other.serve)
        await queue.produce(RECORDS - 2)
        await _until(lambda: first.counts.moved >= 1)
        is_over.set()
        wanted = RECORDS - (how == "is held")
        runners = [first, *(worker.runners[0] for worker in others)]
        await _until(lambda: sum(runner.counts.done for runner in runners) == wanted)
        for worker in (holder, *others):
            worker.stop()


def _quick(queue: WorkQueue) -> Worker:
    worker = Worker(queue.broker.bootstrap, group=queue.group)

    @worker.handler(queue.topic)
    async def ship(number: int) -> None:
        pass

    return worker


async def _until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(DEADLINE_S):
        while not is_so():
            await anyio.sleep(0.02)
