"""A worker process of the storm: `python -m tests.integration.worker_storm.program PLACES DIARY`."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from pathlib import Path

import anyio

from kshare.worker import Delivery, Retry, RetryTopics, Worker
from tests.integration.worker_storm.crew import KILLED
from tests.integration.worker_storm.diary import Diary, Event
from tests.integration.worker_storm.fates import ATTEMPTS, FAILURES, Fate
from tests.integration.worker_storm.places import Places

TIME_LIMIT_S = 3.0
TIERS = RetryTopics(tiers=(1.0, 5.0))
_BEAT_S = 0.05


class Refused(Exception):
    """What handlers raise."""


def build(places: Places, diary: Diary) -> Worker:
    fates = places.plan.fates()
    worker = Worker(
        places.bootstrap,
        group=places.group,
        concurrency=30,
        retry=Retry(attempts=ATTEMPTS, delay=[0.1, 1.0, 2.0]),
        retry_topics=TIERS,
        hold_up_to=0.5,
        dead_letters=places.dead,
        time_limit=max(TIME_LIMIT_S, 2 * places.lock_s),
        breaker=None,
        drain_timeout=20.0,
    )

    async def process(number: int, delivery: Delivery) -> None:
        diary.write(Event.BEGAN, number, delivery.attempt, delivery.delivery_count)
        is_first = delivery.attempt == 1
        match fates[number]:
            case Fate.FAILS_AT_FIRST if delivery.attempt <= FAILURES:
                raise Refused
            case Fate.FAILS:
                raise Refused
            case Fate.REJECTED:
                delivery.reject("not wanted")
                return
            case Fate.HANGS:
                await anyio.sleep_forever()
            case Fate.HANGS_AT_FIRST if is_first:
                await anyio.sleep_forever()
            case Fate.IS_SLOW if is_first:
                await anyio.sleep(1.5 * places.lock_s)
            case Fate.STALLS if diary.is_first_time(f"stalled-{number}"):
                time.sleep(1.5 * places.lock_s)  # noqa: ASYNC251  it blocks the event loop on purpose
            case Fate.KILLS:
                os._exit(KILLED)
            case Fate.KILLS_AT_FIRST if diary.is_first_time(f"killed-{number}"):
                os._exit(KILLED)
            case _:
                await anyio.sleep(0.001 * (number % 4))
        diary.write(Event.SUCCEEDED, number, delivery.attempt, delivery.delivery_count)

    worker.handler(places.plain)(process)
    worker.handler(places.ordered, order="key")(process)
    return worker


def keep_diary(worker: Worker, diary: Diary, lock_s: float) -> None:
    """Write down when locks may have been lost because the event loop stood still, and how it ended."""
    beating: list[asyncio.Task[None]] = []

    async def beat() -> None:
        before = time.monotonic()
        while True:
            await asyncio.sleep(_BEAT_S)
            now = time.monotonic()
            if now - before > lock_s / 4:
                diary.write(Event.STALLED, round((now - before) * 1000))
            before = now

    @worker.on_startup
    def begin() -> None:
        beating.append(asyncio.get_running_loop().create_task(beat()))

    @worker.on_shutdown
    def end() -> None:
        for task in beating:
            task.cancel()
        counts = [runner.counts for runner in worker.runners]
        diary.write(
            Event.COUNTED, sum(count.failed for count in counts), sum(count.cancelled for count in counts)
        )


if __name__ == "__main__":
    logging.basicConfig(
        level=logging.WARNING,
        format="%(asctime)s %(process)d %(message)s",
    )
    given, own_diary = Places.from_json(sys.argv[1]), Diary(Path(sys.argv[2]))
    built = build(given, own_diary)
    keep_diary(built, own_diary, given.lock_s)
    built.run()
