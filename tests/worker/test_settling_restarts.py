"""Restarts while what handlers depend on is down: each costs what is in hand a delivery, and the last one is logged."""

from __future__ import annotations

from collections import Counter

import anyio
import pytest

from kshare.testing import Broker
from kshare.worker import Breaker, Retry, Worker
from tests.helpers.consuming import until

pytestmark = pytest.mark.anyio

RECORDS = 200
STARTS = 7


@pytest.mark.parametrize("dead_letters", [None, "dead"])
async def test_restarts_while_the_breaker_is_open(
    dead_letters: str | None, kshare_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """They archived 10 records that had attempts left, of which the log named one."""
    kshare_broker.create_topic("orders")
    kshare_broker.create_topic("dead")
    kshare_broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
    kshare_broker.produce("orders", [b"%d" % number for number in range(RECORDS)])
    is_down = True
    tried: Counter[int] = Counter()
    done: set[int] = set()

    def new_worker() -> Worker:
        worker = Worker(
            kshare_broker.bootstrap,
            group="g",
            retry=Retry(attempts=50, delay=0.01),
            breaker=Breaker(min_failures=5, probe_after=0.05),
            dead_letters=dead_letters,
        )

        @worker.handler("orders")
        async def ship(number: int) -> None:
            tried[number] += 1
            if is_down:
                raise ConnectionError
            done.add(number)

        return worker

    for _ in range(STARTS):
        before = tried.total()
        worker = new_worker()
        async with anyio.create_task_group() as tasks:
            await tasks.start(worker.serve)
            await until(lambda: worker.health().handlers[0].breaker == "open")  # noqa: B023
            await until(lambda: tried.total() >= before + 10)  # noqa: B023  some probes
            worker.stop()
    is_down = False
    worker = new_worker()
    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        [shared] = [one.shared for one in kshare_broker.state.shares.loaded()]
        await until(lambda: shared.start_offset == RECORDS)
        worker.stop()
    missing = {*range(RECORDS)} - done
    assert not [number for number in missing if not tried[number]]
    if dead_letters is None:
        lines = [line for line in caplog.messages if "the broker archives them" in line]
        assert sum(int(line.split(" record")[0].rsplit(" ", 1)[1]) for line in lines) == len(missing)
    else:
        assert {int(one.value or b"") for one in kshare_broker.records("dead")} == missing
