"""Restarts while handlers are stopped: each costs what is in hand a delivery, but nothing is given up untried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import anyio
import pytest

from kshare.testing import Broker
from kshare.worker import Breaker, Retry, Worker
from tests.helpers.consuming import until

pytestmark = pytest.mark.anyio

RECORDS = 200
STARTS = 7


class Orders:
    """Records, and workers that are started and stopped one after another while what they depend on is down."""

    def __init__(
        self, broker: Broker, dead_letters: str | None, breaker: Breaker | None, *, delay: float
    ) -> None:
        self.broker = broker
        broker.create_topic("orders")
        broker.create_topic("dead")
        broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
        broker.produce("orders", [b"%d" % number for number in range(RECORDS)])
        self.tried: Counter[int] = Counter()
        self.done: set[int] = set()
        self._dead_letters, self._breaker, self._delay = dead_letters, breaker, delay
        self._is_down = True

    @property
    def missing(self) -> set[int]:
        return {*range(RECORDS)} - self.done

    @property
    def untried(self) -> set[int]:
        return {*range(RECORDS)} - {*self.tried}

    @property
    def dead(self) -> set[int]:
        return {int(record.value or b"") for record in self.broker.records("dead")}

    def _new_worker(self) -> Worker:
        worker = Worker(
            self.broker.bootstrap,
            group="g",
            concurrency=20,
            retry=Retry(attempts=50, delay=self._delay),
            breaker=self._breaker,
            dead_letters=self._dead_letters,
        )

        @worker.handler("orders")
        async def ship(number: int) -> None:
            self.tried[number] += 1
            if self._is_down:
                if self._breaker is None:
                    worker.pause("orders", 60.0)
                raise ConnectionError
            self.done.add(number)

        return worker

    async def restart(self, is_enough: Callable[[], bool] = lambda: True) -> None:
        """Start and stop workers whose handler is stopped by then, and then one that can do everything."""
        for _ in range(STARTS):
            before = self.tried.total()
            worker = self._new_worker()
            async with anyio.create_task_group() as tasks:
                await tasks.start(worker.serve)
                await until(lambda: worker.health().handlers[0].state in ("paused", "breaker open"))  # noqa: B023
                await until(lambda: self.tried.total() > before and is_enough())  # noqa: B023
                worker.stop()
        self._is_down = False
        worker = self._new_worker()
        async with anyio.create_task_group() as tasks:
            await tasks.start(worker.serve)
            await until(
                lambda: (
                    [loaded.shared.start_offset for loaded in self.broker.state.shares.loaded()] == [RECORDS]
                )
            )
            worker.stop()


@pytest.mark.lengthy
@pytest.mark.parametrize("dead_letters", [None, "dead"])
async def test_restarts_while_the_breaker_is_open(
    dead_letters: str | None, kshare_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """They archived 10 records that had attempts left, of which the log named one."""
    orders = Orders(kshare_broker, dead_letters, Breaker(min_failures=5, probe_after=0.05), delay=0.01)
    probed = 0

    def is_probed() -> bool:
        nonlocal probed
        if orders.tried.total() < probed + 10:
            return False
        probed = orders.tried.total()
        return True

    await orders.restart(is_probed)
    assert not orders.untried
    if dead_letters is None:
        lines = [line for line in caplog.messages if "the broker archives them" in line]
        assert sum(int(line.split(" record")[0].rsplit(" ", 1)[1]) for line in lines) == len(orders.missing)
    else:
        assert orders.dead == orders.missing


@pytest.mark.lengthy
@pytest.mark.parametrize("dead_letters", [None, "dead"])
@pytest.mark.parametrize(
    "breaker", [None, Breaker(min_failures=5, probe_after=60.0)], ids=["pause", "breaker"]
)
async def test_what_waits_again_is_tried_before_it_is_given_back(
    breaker: Breaker | None, dead_letters: str | None, kshare_broker: Broker
) -> None:
    """A handler was stopped by a pause, or by its breaker. Restarts used up the deliveries of what had waited for it:
    up to 37 records were archived, or became dead letters, and nobody had tried them.

    Each start acquires few until one has succeeded. With a pause, 40 lost all their deliveries, with a breaker 36.
    """
    orders = Orders(kshare_broker, dead_letters, breaker, delay=60.0)
    await orders.restart()
    assert not orders.untried
    assert len(orders.missing) <= (2 if breaker is None else 10)
    assert orders.dead == (set() if dead_letters is None else orders.missing)
