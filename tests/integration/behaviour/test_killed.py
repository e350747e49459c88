"""A consumer whose process is killed while it holds records."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import WorkQueue, in_thread, nothing_comes, take

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.slow]

DEADLINE_S = 60.0
ROOT = Path(__file__).resolve().parents[3]

VICTIM = """
import sys
import anyio
from kshare import ShareConsumer

async def work(bootstrap, group, topic):
    async with ShareConsumer(bootstrap, group=group, topics=[topic], acknowledgement="explicit") as consumer:
        async for record in consumer:
            if int(record.value) < 5:
                record.accept()
                continue
            await consumer.commit()
            print("at", record.value.decode(), flush=True)
            await anyio.sleep_forever()

anyio.run(work, *sys.argv[1:])
"""
"""Accepts five records, commits, and then waits to be killed, with the other records held."""


async def test_records_held_by_a_killed_consumer_are_redelivered(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue()
    await queue.produce(20)
    await in_thread(start_and_kill, queue)
    async with queue.consumer() as source:
        found = await take(source, 15)
        assert [record.value for record in found] == queue.values(first=5)
        # The broken connection releases them at once. 4.1 doesn't count a delivery that ended with its session.
        # A consumer that is killed early may have received only the records of the first fetch.
        assert {record.delivery_count for record in found[:10]} == {1 if queue.is_4_1 else 2}
        assert await nothing_comes(source)


def start_and_kill(queue: WorkQueue) -> None:
    arguments = [queue.broker.bootstrap, queue.group, queue.topic]
    with subprocess.Popen(
        [sys.executable, "-c", VICTIM, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as victim:
        try:
            assert victim.stdout is not None
            assert victim.stdout.readline() == "at 5\n"
        finally:
            victim.kill()
            victim.wait(timeout=DEADLINE_S)
