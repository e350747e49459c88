"""A worker that pauses, whose dependency goes down, and whose functions hang: `python -m <this> SCENE DIARY`."""

from __future__ import annotations

import json
import logging
import random
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import anyio

from kshare.worker import Breaker, Delivery, Retry, Worker
from tests.integration.worker_storm.diary import Diary, Event

TIME_LIMIT_S = 2.0
DRAIN_S = 2.0


class IsDown(Exception):
    """The dependency."""


class IsBad(Exception):
    """The record."""


@dataclass(frozen=True)
class Scene:
    """What a process is told."""

    bootstrap: str
    group: str
    plain: str
    """Its dead letters are kept by a function."""
    urgent: str
    """It has the higher priority. Its dead letters are in `dead`."""
    dead: str
    lock_s: float
    down: str
    """The path of a file: the dependency is down while it exists."""

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))


def build(scene: Scene, diary: Diary) -> Worker:
    worker = Worker(
        scene.bootstrap,
        group=scene.group,
        concurrency=20,
        retry=Retry(attempts=3, delay=[0.1, 0.5]),
        breaker=Breaker(min_failures=8, probe_after=0.3, window=2.0),
        time_limit=TIME_LIMIT_S,
        drain_timeout=DRAIN_S,
    )
    is_down = Path(scene.down).exists

    async def bury(delivery: Delivery, reason: str) -> None:
        number = int(delivery.value or b"")
        if number % 4 == 3 and diary.is_first_time(f"buried-{number}"):
            await anyio.sleep_forever()
        diary.write(Event.BURIED, number, delivery.attempt, delivery.delivery_count)

    def function_for(topic: str) -> Callable[[int, Delivery], Awaitable[None]]:
        async def process(number: int, delivery: Delivery) -> None:
            diary.write(Event.BEGAN, number, delivery.attempt, delivery.delivery_count)
            if is_down():
                raise IsDown
            if number % 150 == 11:
                raise IsBad
            if number % 150 == 61 and diary.is_first_time(f"hung-{number}"):
                await anyio.sleep_forever()
            if number % 60 == 31 and diary.is_first_time(f"held-{number}"):
                delivery.release(delay=random.uniform(1.0, 2.0 * scene.lock_s))
                return
            if number % 100 == 41 and diary.is_first_time(f"paused-{number}"):
                worker.pause(topic, random.uniform(0.2, 2.5 * scene.lock_s))
            await anyio.sleep(random.uniform(0.0, 0.03))
            diary.write(Event.SUCCEEDED, number, delivery.attempt, delivery.delivery_count)

        return process

    worker.handler(scene.urgent, priority=1, dead_letters=scene.dead)(function_for(scene.urgent))
    worker.handler(scene.plain, dead_letters=bury)(function_for(scene.plain))
    return worker


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("kshare.wire").setLevel(logging.WARNING)
    build(Scene.from_json(sys.argv[1]), Diary(Path(sys.argv[2]))).run()
