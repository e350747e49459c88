"""A worker process at full load: `python -m tests.integration.worker_storm.loaded BOOTSTRAP GROUP TOPIC DIARY`."""

from __future__ import annotations

import logging
import random
import sys
from pathlib import Path

import anyio

from kshare.worker import Delivery, Worker
from tests.integration.worker_storm.diary import Diary, Event

DRAIN_S = 10.0


def build(bootstrap: str, group: str, topic: str, diary: Diary) -> Worker:
    worker = Worker(bootstrap, group=group, concurrency=100, drain_timeout=DRAIN_S)

    @worker.handler(topic)
    async def process(number: int, delivery: Delivery) -> None:
        diary.write(Event.BEGAN, number, delivery.attempt, delivery.delivery_count)
        await anyio.sleep(random.uniform(0.0, 0.04))
        diary.write(Event.SUCCEEDED, number, delivery.attempt, delivery.delivery_count)

    @worker.on_shutdown
    def count() -> None:
        counts = [runner.counts for runner in worker.runners]
        diary.write(
            Event.COUNTED,
            sum(count.failed for count in counts),
            sum(count.cancelled for count in counts),
            sum(count.released + count.lost for count in counts),
        )

    return worker


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(message)s")
    bootstrap, group, topic, own_diary = sys.argv[1:]
    build(bootstrap, group, topic, Diary(Path(own_diary))).run()
