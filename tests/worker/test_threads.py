"""A worker in several threads: all of them process records, and all end together."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Literal

import anyio
import pytest

from kshare.errors import ConfigError
from kshare.testing import Broker
from kshare.worker import Worker
from kshare.worker.watch.health import HandlerState, WorkerHealth, WorkerState
from kshare.worker.watch.observer import WorkerObserver

pytestmark = pytest.mark.usefixtures("default_signals")

RECORDS = 200
DEADLINE_S = 60.0


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders", 4)
    kshare_broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
    for number in range(RECORDS):
        kshare_broker.produce("orders", [b"%d" % number], partition=number % 4)
    return kshare_broker


@pytest.mark.lengthy
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_all_threads_process_records_and_stop_at_a_signal(
    broker: Broker, backend: Literal["asyncio", "trio"]
) -> None:
    worker = Worker(broker.bootstrap, group="g", concurrency=2)
    seen: set[str] = set()
    got: list[int] = []
    hooks: list[str] = []
    told: list[bool] = []
    lock = threading.Lock()

    @worker.handler("orders")
    async def ship(number: int) -> None:
        await anyio.sleep(0.005)
        with lock:
            seen.add(threading.current_thread().name)
            got.append(number)
            if len(seen) == 3 and not told and {*range(RECORDS)} <= {*got}:
                told.append(True)
                os.kill(os.getpid(), signal.SIGTERM)
        if len(seen) < 3:
            broker.produce("orders", [b"-1"])  # until all have begun

    worker.on_startup(lambda: hooks.append("start"))
    worker.on_shutdown(lambda: hooks.append("end"))
    worker.run(backend=backend, threads=3)
    assert {*range(RECORDS)} <= {*got}
    assert hooks == ["start"] * 3 + ["end"] * 3
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("kshare worker")]


@pytest.mark.lengthy
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_second_signal_reaches_threads_when_the_main_thread_has_finished(
    broker: Broker, backend: Literal["asyncio", "trio"]
) -> None:
    worker = Worker(broker.bootstrap, group="g", concurrency=1, drain_timeout=3600)
    begun = threading.Event()
    cancelled: list[bool] = []

    @worker.handler("orders")
    async def ship(number: int) -> None:
        if threading.current_thread() is threading.main_thread():
            await anyio.sleep(0.005)
            if not begun.is_set():
                broker.produce("orders", [b"-1"])  # until the other one has begun
            return
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(True)

    def stop_twice() -> None:
        assert begun.wait(DEADLINE_S)
        os.kill(os.getpid(), signal.SIGTERM)
        until = time.monotonic() + DEADLINE_S
        while worker.health().state is not WorkerState.STOPPED:  # that of the main thread
            assert time.monotonic() < until
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    stopper = threading.Thread(target=stop_twice)
    stopper.start()
    worker.run(backend=backend, threads=2)
    stopper.join()
    assert cancelled == [True]


def test_a_thread_that_fails_ends_the_others(broker: Broker) -> None:
    worker = Worker(broker.bootstrap, group="g")
    worker.handler("orders")(lambda number: None)

    @worker.on_startup
    def begin() -> None:
        if threading.current_thread() is not threading.main_thread():
            raise LookupError("no database")

    with pytest.raises(LookupError, match="no database"):
        worker.run(threads=2)


@pytest.mark.parametrize("threads", [0, True, 1.5, "2", 1001])
def test_invalid_numbers_of_threads_are_refused(threads: int) -> None:
    with pytest.raises(ConfigError, match="threads must be a whole number from 1 to 1,000"):
        Worker(group="g").run(threads=threads)


@pytest.mark.lengthy
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_pause_stops_the_handlers_of_all_threads(
    broker: Broker, backend: Literal["asyncio", "trio"]
) -> None:
    """Only those of the first thread were paused, whichever thread asked for it."""
    worker = Worker(broker.bootstrap, group="g", concurrency=1)
    healths: list[Callable[[], WorkerHealth]] = []
    callers: set[str] = set()
    paused: list[str] = []

    class Observer(WorkerObserver):
        def on_serve(self, health: Callable[[], WorkerHealth]) -> None:
            healths.append(health)

    worker.observe(Observer())

    @worker.handler("orders")
    async def ship(number: int) -> None:
        await anyio.sleep(0.005)
        name = threading.current_thread().name
        callers.add(name)
        if len(callers) == 3 and name != threading.main_thread().name and not paused:
            paused.append(name)
            worker.pause("orders", 3600)
        elif not paused:
            broker.produce("orders", [b"-1"], partition=number % 4)

    states: list[HandlerState] = []

    def watch() -> None:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            states[:] = [handler.state for health in healths for handler in health().handlers]
            if paused and states == [HandlerState.PAUSED] * 3:
                break
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    watcher = threading.Thread(target=watch)
    worker.run(backend=backend, threads=3, on_running=watcher.start)
    watcher.join()
    assert states == [HandlerState.PAUSED] * 3
