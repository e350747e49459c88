"""Starting and stopping a worker: at any moment, and whatever its hooks raise."""

from __future__ import annotations

import re
from collections.abc import Callable

import anyio
import pytest

from kshare.errors import ConfigError
from kshare.testing import Broker
from kshare.worker import Retry, RetryTopics, Worker
from kshare.worker.run.runner import HandlerRunner
from tests.helpers.consuming import DEADLINE_S, until

pytestmark = [pytest.mark.anyio]


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders")
    kshare_broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
    return kshare_broker


async def test_stop_while_starting_ends_it_at_once(broker: Broker) -> None:
    worker = Worker(broker.bootstrap, group="g")
    worker.handler("orders")(lambda value: None)
    is_waiting = anyio.Event()

    @worker.on_startup
    async def waits_for_a_database() -> None:
        is_waiting.set()
        await anyio.sleep_forever()

    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.serve)
            await is_waiting.wait()
            worker.stop()


@pytest.mark.lengthy
async def test_stop_while_a_handler_starts_lets_the_others_finish(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the group is full."""
    worker = Worker(broker.bootstrap, group="g")
    done: list[bytes] = []
    is_processing, second_starts = anyio.Event(), anyio.Event()

    @worker.handler("orders")
    async def first(value: bytes) -> None:
        is_processing.set()
        await second_starts.wait()
        await anyio.sleep(0.05)
        done.append(value)

    worker.handler("others")(lambda value: None)
    run = HandlerRunner.run

    async def run_first_only(self: HandlerRunner, *, on_started: Callable[[], None]) -> None:
        if self.route.name != "first":
            second_starts.set()
            await anyio.sleep_forever()
        await run(self, on_started=on_started)

    monkeypatch.setattr(HandlerRunner, "run", run_first_only)
    broker.produce("orders", [b"1"])
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.serve)
            await is_processing.wait()
            await second_starts.wait()
            worker.stop()
    assert done == [b"1"]


async def test_whoever_waits_for_the_start_goes_on_when_it_is_stopped(broker: Broker) -> None:
    worker = Worker(broker.bootstrap, group="g")
    worker.handler("orders")(lambda value: None)
    worker.on_startup(worker.stop)
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            await tasks.start(worker.serve)


async def test_all_shutdown_hooks_run_and_the_first_error_counts(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(broker.bootstrap, group="g", drain_timeout=0)
    worker.handler("orders")(lambda value: None)
    ended: list[str] = []

    @worker.on_shutdown
    async def last() -> None:
        await anyio.sleep(0.01)  # `drain_timeout` is for handlers
        ended.append("last")

    @worker.on_shutdown
    def second() -> None:
        raise OSError("second")

    @worker.on_shutdown
    async def first() -> None:
        raise LookupError("first")

    with pytest.raises(LookupError, match="first"), anyio.fail_after(DEADLINE_S):
        await start_and_stop(worker)
    assert ended == ["last"]
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        "another shutdown hook failed"
    ]


async def start_and_stop(worker: Worker) -> None:
    try:
        async with anyio.create_task_group() as tasks:
            await tasks.start(worker.serve)
            worker.stop()
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


@pytest.mark.lengthy
async def test_no_handler_starts_after_the_drain_deadline(broker: Broker) -> None:
    broker.produce("orders", [b"%d" % number for number in range(300)])
    worker = Worker(broker.bootstrap, group="g", concurrency=3, drain_timeout=0.3)
    started: list[int] = []
    blocks = False

    @worker.handler("orders")
    async def ship(number: int) -> None:
        started.append(number)
        if blocks:
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until(lambda: len(started) == 300)
        blocks = True
        broker.produce("orders", [b"%d" % number for number in range(50)])
        await until(lambda: len(started) == 303)
        worker.stop()
    assert len(started) == 303


async def test_the_dead_letter_topic_is_created_so_that_it_is_found(broker: Broker) -> None:
    worker = Worker(broker.bootstrap, group="g", dead_letters="orders-dead", retry_topics=RetryTopics())
    worker.handler("orders")(lambda value: None)
    await start_and_stop(worker)
    topics = broker.call(lambda: [*broker.state.cluster.topics])
    assert {"orders-dead", "orders.retry.1m", "orders.retry.10m", "orders.retry.1h"} <= {*topics}


@pytest.mark.parametrize("dead_letters", ["bad name!", "", "x" * 250])
async def test_dead_letter_topics_need_possible_names(dead_letters: str) -> None:
    with pytest.raises(ConfigError, match="isn't the name of a topic"):
        Worker(group="g", dead_letters=dead_letters)


async def test_dead_letters_may_not_go_where_they_come_from() -> None:
    worker = Worker(group="g", dead_letters="orders")
    with pytest.raises(ConfigError, match="its dead letters would come back forever"):
        worker.handler("orders")(lambda value: None)


@pytest.mark.lengthy
@pytest.mark.parametrize("name", ["{topic}.retry.{delay}", "{topic}-again-{delay}"])
@pytest.mark.parametrize("shares_worker", [True, False])
async def test_patterns_of_another_group_do_not_match_retry_topics(
    broker: Broker, name: str, shares_worker: bool
) -> None:
    """The other group got a copy of each record for each of its retries. It can't know names that were chosen by
    another worker."""
    is_known = shares_worker or name == "{topic}.retry.{delay}"
    broker.create_topic("orders-eu")
    broker.create_topic("orders-again-us")
    broker.set_group_config("audit", {"share.auto.offset.reset": "earliest"})
    shipping = Worker(broker.bootstrap, breaker=None)
    audit = shipping if shares_worker else Worker(broker.bootstrap)
    seen: list[int] = []

    @shipping.handler(
        "orders-eu",
        group="g",
        retry=Retry(attempts=2, delay=0.02),
        hold_up_to=0.01,
        retry_topics=RetryTopics(tiers=(0.02,), name=name),
    )
    async def ship(number: int) -> None:
        raise ConnectionError

    @audit.handler(re.compile("orders-.*"), group="audit")
    async def note(number: int) -> None:
        seen.append(number)

    broker.produce("orders-eu", [b"%d" % number for number in range(10)])
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            await tasks.start(shipping.serve)
            await until(lambda: shipping.runners[0].counts.dead == 10)
            if not shares_worker:
                await tasks.start(audit.serve)
            own = {"orders-eu", "orders-again-us"}
            assert ({*audit.runners[-1].route.topics} == own) is is_known
            await until(lambda: len(seen) == (10 if is_known else 20))
            shipping.stop()
            audit.stop()
    assert len(seen) == (10 if is_known else 20)
