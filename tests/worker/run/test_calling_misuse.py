"""Handlers that ask for what can't be done: clear errors, and nothing is accepted that wasn't finished."""

from __future__ import annotations

import gc
import re
import threading
import types
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from kshare.errors import ConfigError, InProgress, KshareError
from kshare.testing import Broker, run_worker
from kshare.worker import Delivery, RetryTopics, SampleRecord, Worker
from tests.helpers.running_worker import from_the_start, running, until

pytestmark = pytest.mark.anyio


async def really(value: bytes) -> None:
    raise AssertionError("nobody awaits it")


async def returns_a_coroutine(value: bytes) -> Any:
    return really(value)


async def waits_and_returns_a_coroutine(value: bytes) -> Any:
    await anyio.lowlevel.checkpoint()
    return really(value)


async def takes_its_delivery_and_returns_a_coroutine(value: bytes, delivery: Delivery) -> Any:
    return really(value)


class Later:
    """As a future."""

    def __await__(self) -> Generator[None]:
        yield


def returns_an_awaitable(value: bytes) -> Any:
    return Later()


def returns_an_async_generator(value: bytes) -> AsyncIterator[bytes]:
    async def generate() -> AsyncIterator[bytes]:
        yield value

    return generate()


def numbers(value: bytes) -> Iterator[int]:
    yield from value


@types.coroutine
def of_generators(value: bytes) -> Generator[None, None, None]:
    yield


def returns_a_generator(value: bytes) -> Any:
    return numbers(value)


async def returns_a_generator_in_the_loop(value: bytes) -> Any:
    return numbers(value)


async def waits_and_returns_a_generator(value: bytes, delivery: Delivery) -> Any:
    await anyio.lowlevel.checkpoint()
    return numbers(value)


def returns_a_coroutine_of_generators(value: bytes) -> Any:
    return of_generators(value)


def returns_a_future(value: bytes) -> Any:
    return Future[None]()


async def returns_a_future_in_the_loop(value: bytes) -> Any:
    return Future[None]()


def returns_a_map(value: bytes) -> Any:
    return map(numbers, [value])


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "function",
    [
        returns_a_coroutine,
        waits_and_returns_a_coroutine,
        takes_its_delivery_and_returns_a_coroutine,
        returns_an_awaitable,
        returns_an_async_generator,
        returns_a_generator,
        returns_a_generator_in_the_loop,
        waits_and_returns_a_generator,
        returns_a_coroutine_of_generators,
        returns_a_future,
        returns_a_future_in_the_loop,
        returns_a_map,
    ],
)
def test_handlers_that_return_what_nobody_awaits_have_failed(function: Callable[..., Any]) -> None:
    errors: list[BaseException] = []
    worker = Worker(group="g")
    worker.handler("orders")(function)
    worker.on_error(lambda delivery, error: errors.append(error))
    with run_worker(worker) as running_worker:
        running_worker.produce("orders", b"1")
        running_worker.wait_until(lambda: bool(errors))
        [counts] = running_worker.counts.values()
        assert counts.done == 0
    assert re.search("that nobody (awaits|iterates over|waits for)", str(errors[0]))
    assert function.__name__ in str(errors[0])


@pytest.mark.parametrize("option", ["only", "order", "dead_letters"])
async def test_other_functions_that_have_only_begun_have_failed_too(option: str) -> None:
    """A coroutine is true, and not equal to any other; and a dead letter wasn't kept."""

    async def later(*arguments: object) -> bool:
        return True

    async def keep(*arguments: object) -> Any:
        return later()

    options: dict[str, Any] = {option: keep if option == "dead_letters" else lambda one: later(one)}
    worker = Worker(group="g", **options)

    @worker.handler("orders")
    async def ship(value: bytes, delivery: Delivery) -> None:
        delivery.reject()

    trial = await worker.test(b"1")
    assert trial.outcome == "held"
    if option != "dead_letters":
        assert f"{option} test_other_functions" in str(trial.error)
    gc.collect()


def test_generators_with_methods_are_refused() -> None:
    class Handles:
        def __call__(self, value: bytes) -> Iterator[bytes]:
            yield value

    with pytest.raises(ConfigError, match="is a generator: its result would never be read"):
        Worker(group="g").handler("orders")(Handles())


@pytest.mark.lengthy
@pytest.mark.parametrize("result", [7, b"", [], {"x": 1}, iter([1]), object()])
def test_results_that_need_no_await_are_fine(result: object) -> None:
    worker = Worker(group="g")

    @worker.handler("orders")
    async def ship(value: bytes) -> object:
        return result

    with run_worker(worker) as running_worker:
        running_worker.produce("orders", b"1", b"2")
        running_worker.wait_until(lambda: running_worker.counts["ship"].done == 2)
        assert running_worker.counts["ship"].failed == 0


@pytest.mark.parametrize("retry_after", [float("inf"), float("nan"), -5.0, 1e300])
@pytest.mark.parametrize("retry_topics", [False, RetryTopics(tiers=(60.0,))])
async def test_calls_in_progress_may_say_any_time(
    retry_after: float, retry_topics: bool | RetryTopics
) -> None:
    worker = Worker(group="g", retry_topics=retry_topics)

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        raise InProgress("another call", retry_after=retry_after)

    trial = await worker.test(b"")
    assert trial.outcome in ("held", "moved")
    assert trial.delay is not None
    assert 0 <= trial.delay <= 10_000_000


async def test_a_decision_comes_before_a_call_in_progress() -> None:
    worker = Worker(group="g")

    @worker.handler("orders")
    async def ship(value: bytes, delivery: Delivery) -> None:
        delivery.accept()
        raise InProgress("another call", retry_after=1)

    assert (await worker.test(b"")).outcome == "accepted"


async def test_no_delay_is_a_short_one() -> None:
    """Otherwise a handler that always asks for it would be called without end, and block everything else."""
    worker = Worker(group="g")

    @worker.handler("orders")
    async def ship(value: bytes, delivery: Delivery) -> None:
        delivery.release(delay=0)

    assert (await worker.test(b"")).delay == 0.01


@pytest.mark.lengthy
@pytest.mark.parametrize("method", ["accept", "release", "reject", "renew", "publish"])
def test_threads_that_go_on_after_their_time_limit_settle_nothing(method: str) -> None:
    worker = Worker(group="g", time_limit=1, concurrency=1)
    began, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    errors: list[Exception] = []

    @worker.handler("orders")
    def ship(value: bytes, delivery: Delivery) -> None:
        if errors or go_on.is_set():
            return
        began.set()
        go_on.wait(30)
        try:
            delivery.publish("t", b"") if method == "publish" else getattr(delivery, method)()
        except KshareError as error:
            errors.append(error)
        ended.set()

    with run_worker(worker) as running_worker:
        running_worker.produce("orders", b"1")
        assert began.wait(30)
        for _ in range(4):
            running_worker.advance(1)
        running_worker.wait_until(lambda: running_worker.counts["ship"].cancelled == 1)
        go_on.set()
        assert ended.wait(30)
        running_worker.wait_until_settled()
    assert "its handler was cancelled" in str(errors[0])


async def test_threads_of_a_handler_are_told_where_to_settle() -> None:
    worker = Worker(group="g")
    errors: list[str] = []

    @worker.handler("orders")
    def ship(value: bytes, delivery: Delivery) -> None:
        def settle() -> None:
            try:
                delivery.accept()
            except KshareError as error:
                errors.append(str(error))

        thread = threading.Thread(target=settle)
        thread.start()
        thread.join()

    assert (await worker.test(SampleRecord())).outcome == "accepted"
    assert errors == [
        "a record can't be settled by a thread that the handler has started: do it in the handler's own thread"
    ]


@pytest.mark.lengthy
async def test_records_of_one_key_that_pin_too_much_are_handed_back_at_once_in_a_long_pause(
    kshare_broker: Broker,
) -> None:
    from_the_start(kshare_broker)
    kshare_broker.create_topic("t")
    count = 1000
    kshare_broker.produce("t", [b"%d" % number for number in range(count)], key=b"k")
    worker = Worker(kshare_broker.bootstrap, group="g", order="key", concurrency=count, max_pinned=0.1)

    @worker.handler("t")
    async def process(value: bytes) -> None:
        await until(lambda: worker.runners[0].queue.unsettled > 300)  # the first fetches bring fewer
        worker.pause("t", 3600)

    async with running(worker):
        [runner] = worker.runners
        await until(lambda: runner.counts.released > 0)
        await until(lambda: runner.queue.unsettled <= 200)
