"""What a whole worker does, on the embedded broker."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import anyio
import pytest

from kshare import ConfigError, KshareError
from kshare.testing import Broker
from kshare.worker import Adaptive, Deliveries, Delivery, Handlers, Retry, Worker, WorkerObserver
from tests.helpers.consuming import until

pytestmark = pytest.mark.anyio


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
    for topic in ("a", "b"):
        kshare_broker.create_topic(topic)
        kshare_broker.produce(topic, [b"%d" % number for number in range(20)])
    return kshare_broker


def settled(worker: Worker) -> int:
    return sum(runner.counts.done + runner.counts.dead + runner.counts.filtered for runner in worker.runners)


@pytest.mark.lengthy
async def test_higher_priority_goes_first(broker: Broker) -> None:
    worker = Worker(broker.bootstrap, group="g", concurrency=1)
    order: list[str] = []

    @worker.handler("a")
    async def low(value: bytes) -> None:
        await anyio.sleep(0.005)
        order.append("low")

    @worker.handler("b", priority=1)
    async def high(value: bytes) -> None:
        await anyio.sleep(0.005)
        order.append("high")

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until(lambda: settled(worker) == 40)
        worker.stop()
    first = order.index("high")
    # One may be in hand when the first of these arrives, and one may start whenever none of these waits at the moment.
    # Without priorities, it would be half of them.
    assert order[first : first + 16].count("low") <= 5, order


@pytest.mark.lengthy
async def test_dead_letters_can_be_kept_by_a_function(broker: Broker) -> None:
    kept: list[tuple[bytes | None, str]] = []
    refused: list[int] = []

    async def keep(delivery: Delivery, reason: str) -> None:
        if delivery.offset == 3 and not refused:
            refused.append(3)
            raise OSError("disk full")
        kept.append((delivery.value, reason))

    worker = Worker(broker.bootstrap, group="g", retry=Retry(attempts=1), breaker=None, dead_letters=keep)

    @worker.handler("a")
    async def process(number: int) -> None:
        if number < 5:
            raise ValueError

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        [runner] = worker.runners
        await until(lambda: settled(worker) == 20)
        worker.stop()
    # The one that couldn't be kept is held, and kept a second later. Its handler isn't called again.
    assert sorted(kept) == sorted(
        [(b"%d" % n, "ValueError in attempt 1") for n in (0, 1, 2, 4)] + [(b"3", "ValueError in attempt 1")]
    )
    assert (runner.counts.dead, runner.counts.released, runner.counts.failed) == (5, 0, 5)


@pytest.mark.lengthy
async def test_deliveries_of_a_batch_can_be_decided_together(broker: Broker) -> None:
    worker = Worker(broker.bootstrap, group="g", breaker=None)
    seen: list[tuple[int, bool]] = []

    @worker.batch_handler("a", batch_size=10)
    async def process(deliveries: Deliveries) -> None:
        seen.extend((delivery.offset, delivery.redelivered) for delivery in deliveries)
        deliveries[0].reject()
        if not deliveries[0].redelivered:
            deliveries.release_all()
        deliveries.accept_all()
        raise ValueError("after everything was decided")

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until(lambda: settled(worker) == 20)
        [runner] = worker.runners
        worker.stop()
    assert runner.counts.dead >= 2
    assert {offset for offset, again in seen if not again} == set(range(20))


@pytest.mark.lengthy
async def test_handlers_are_composed_and_hooks_and_middleware_run_in_order(broker: Broker) -> None:
    happened: list[str] = []
    part = Handlers(group="g")
    worker = Worker(broker.bootstrap)

    @part.handler("a")
    async def process(value: bytes) -> None:
        if len(happened) < 6:
            happened.append("handler")

    @worker.middleware
    @part.middleware
    async def around(delivery: Delivery, go_on: object) -> None:
        happened[3:3] = ["in"] if len(happened) < 4 else []
        await go_on()  # type: ignore[operator]

    for name in ("first", "second"):

        @worker.on_startup
        async def start(name: str = name) -> None:
            happened.append(f"start {name}")

        @worker.on_shutdown
        def stop(name: str = name) -> None:
            happened.append(f"stop {name}")

    worker.include(part)
    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until(lambda: settled(worker) == 20)
        worker.stop()
    assert happened[:2] == ["start first", "start second"]
    assert happened[-2:] == ["stop second", "stop first"]


async def test_failing_startup_hook_prevents_the_start_and_shutdown_hooks_are_not_run(broker: Broker) -> None:
    worker = Worker(broker.bootstrap, group="g")
    seen: list[str] = []

    @worker.handler("a")
    async def process(value: bytes) -> None:
        seen.append("record")

    @worker.on_startup
    def start() -> None:
        raise RuntimeError("no database")

    @worker.on_shutdown
    def stop() -> None:
        seen.append("stopped")

    with pytest.raises(RuntimeError, match="no database"):
        await worker.serve()
    assert seen == []


async def test_shutdown_hooks_are_run_if_a_later_startup_hook_fails(broker: Broker) -> None:
    worker = Worker(broker.bootstrap, group="g")
    seen: list[str] = []
    worker.handler("a")(lambda value: seen.append("record"))
    worker.on_startup(lambda: seen.append("connected"))
    worker.on_shutdown(lambda: seen.append("disconnected"))

    @worker.on_startup
    def start() -> None:
        raise RuntimeError("no cache")

    with pytest.raises(RuntimeError, match="no cache"):
        await worker.serve()
    assert seen == ["connected", "disconnected"]


@pytest.mark.lengthy
async def test_patterns_find_new_topics(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kshare.worker.serving._LOOK_FOR_TOPICS_S", 0.1)
    worker = Worker(broker.bootstrap, group="g")
    topics: set[str] = set()

    @worker.handler(re.compile("a|new-.*"))
    async def process(delivery: Delivery) -> None:
        topics.add(delivery.topic)

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until(lambda: topics == {"a"})
        await anyio.to_thread.run_sync(broker.create_topic, "new-one")
        broker.produce("new-one", [b"x"])
        await until(lambda: topics == {"a", "new-one"})
        worker.stop()


@pytest.mark.lengthy
@pytest.mark.parametrize("name", ["process", "a"], ids=["handler", "topic"])
async def test_pausing_starts_nothing_for_some_time(broker: Broker, name: str) -> None:
    worker = Worker(broker.bootstrap, group="g", concurrency=1)
    seen: list[float] = []

    @worker.handler("a")
    async def process(value: bytes) -> None:
        seen.append(anyio.current_time())
        if len(seen) == 5:
            worker.pause(name, 0.5)

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until(lambda: settled(worker) == 20)
        with pytest.raises(Exception, match=r"no topic or handler other to pause; there are: process \(a\)"):
            worker.pause("other", 1)
        worker.stop()
    gaps = [after - before for before, after in pairwise(seen)]
    assert max(gaps) >= 0.4


@pytest.mark.lengthy
async def test_adaptive_concurrency_processes_everything(broker: Broker) -> None:
    broker.produce("a", [b"x"] * 500)
    worker = Worker(broker.bootstrap, group="g", concurrency=Adaptive(least=1, most=50))
    running = most = 0

    @worker.handler("a")
    async def process(value: bytes) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(0.02)
        running -= 1

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until(lambda: settled(worker) == 520)
        worker.stop()
    assert 1 < most <= 50  # how far it grows depends on how busy the machine is


@pytest.mark.parametrize("backend", ["asyncio"])
async def test_worker_without_handlers_group_or_servers_says_so(broker: Broker, backend: str) -> None:
    with pytest.raises(ConfigError, match="has no handlers"):
        await Worker(broker.bootstrap, group="g").serve()
    for worker, problem in (
        (Worker(broker.bootstrap), "process has no group"),
        (Worker(group="g"), "bootstrap_servers is missing"),
    ):

        @worker.handler("a")
        async def process(value: bytes) -> None: ...

        with pytest.raises(ConfigError, match=problem):
            await worker.serve()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "handler ship has no group"),
        ({"group": "g", "announce": "workers"}, "announce needs the HTTP endpoint"),
        ({"group": "g", "bootstrap_servers": "localhost"}, "'localhost' has no port"),
    ],
)
def test_a_wrong_configuration_is_refused_before_there_is_an_event_loop(
    options: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frames of an event loop would hide the line that says it."""
    monkeypatch.setattr(anyio, "run", None)
    worker = Worker(**{"bootstrap_servers": "localhost:1", **options})

    @worker.handler("orders")
    async def ship(value: bytes) -> None: ...

    with pytest.raises(ConfigError, match=says):
        worker.run()


def test_options_in_a_dictionary_are_refused() -> None:
    options: Any = {"bootstrap_servers": "localhost:1", "group": "g", "password": "secret"}
    with pytest.raises(ConfigError, match=re.escape("write ** before it: Worker(**options)")) as refused:
        Worker(options)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("observer", [print, WorkerObserver, None])
def test_what_is_no_observer_is_refused(observer: Any) -> None:
    with pytest.raises(ConfigError, match="an observer must be an instance of WorkerObserver, not "):
        Worker("localhost:1", group="g").observe(observer)


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("backend", "message"),
    [("gevent", """^backend must be "asyncio" or "trio", not 'gevent'"""), ("trio", "pip install trio")],
)
def test_backends_that_are_not_there_are_refused(
    backend: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kshare.options.checks.find_spec", lambda name: None)
    worker = Worker("localhost:1", group="g")
    with pytest.raises(ConfigError, match=message):
        worker.run(backend=backend)


async def test_handlers_cannot_be_added_while_the_worker_runs(broker: Broker) -> None:
    """They would never be called, without a word."""
    worker = Worker(broker.bootstrap, group="g")

    @worker.handler("a")
    async def ship(value: bytes) -> None: ...

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        with pytest.raises(KshareError, match="the worker is running: declare handlers before it starts"):
            worker.handler("b")
        with pytest.raises(KshareError, match="the worker is running: include handlers before it starts"):
            worker.include(Handlers())
        worker.stop()
