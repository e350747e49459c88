"""A consumer that is killed outright: its process gone in the middle of its work."""

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
"""Accepts five records, has that confirmed, and dies with the rest in its hands."""


async def test_what_a_killed_consumer_held_goes_to_another(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue()
    await queue.produce(20)
    await in_thread(start_and_kill, queue)
    async with queue.consumer() as source:
        found = await take(source, 15)
        assert [record.value for record in found] == queue.values(first=5)
        # The broken connection releases them at once; 4.1 doesn't count a delivery that ended with its session.
        # Who dies quickly has had what the first fetch brings, and perhaps no more.
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
