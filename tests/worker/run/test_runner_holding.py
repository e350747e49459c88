"""Held records don't keep a handler from the others, however many there are."""

from __future__ import annotations

import anyio
import pytest

from kshare.testing import Broker
from kshare.worker import Retry, Worker
from tests.helpers.consuming import until

pytestmark = [pytest.mark.anyio]

HELD = 500
"""Many times `concurrency`, so more than the worker has room for if it doesn't allow for what is held."""


@pytest.mark.lengthy
async def test_others_are_acquired_while_many_are_held(kshare_broker: Broker) -> None:
    kshare_broker.create_topic("t", 2)
    kshare_broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
    worker = Worker(kshare_broker.bootstrap, group="g", retry=Retry(delay=600.0), breaker=None)
    done: list[bytes] = []

    @worker.handler("t", concurrency=5)
    async def process(value: bytes) -> None:
        if value == b"later":
            raise ValueError
        done.append(value)

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        kshare_broker.produce("t", [b"later"] * HELD)
        await until(lambda: worker.runners[0].queue.held == HELD)
        kshare_broker.produce("t", [b"now"] * 10, partition=1)
        await until(lambda: len(done) == 10)
        worker.stop()
