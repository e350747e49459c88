"""Calls of handlers: arguments, middleware, threads, processes, and cancellation of each."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from kshare import KshareError
from kshare.client.made_records import made_record
from kshare.client.record import lease_of
from kshare.state.lease import ACCEPT, HELD
from kshare.worker import Deliveries, Delivery, HandlerOptions
from kshare.worker.handlers.inspection import RunsIn, inspect_handler
from kshare.worker.handlers.payloads import PayloadError
from kshare.worker.handlers.routes import Route
from kshare.worker.host import RunningHandler
from kshare.worker.rules.limits import ShareLimits
from kshare.worker.run.calling import Caller

pytestmark = pytest.mark.anyio

DEADLINE_S = 30.0


def caller(
    function: Callable[..., Any],
    *middleware: Any,
    runs_in: RunsIn | None = None,
    is_batch: bool = False,
) -> Caller:
    call = inspect_handler(function, is_batch=is_batch, runs_in=runs_in)
    options = HandlerOptions(group="g", concurrency=2)
    route = Route("ship", ("orders",), call, options, is_batch, middleware=middleware)
    host: Any = None  # it isn't asked
    handler = RunningHandler(route, ShareLimits(), host, clock=time.monotonic, wall_clock=time.time)
    return Caller(handler)


def delivery(value: bytes = b"7") -> Delivery:
    return Delivery(made_record("orders", value), "g", 5)


async def test_payload_is_converted_and_kept_in_the_delivery() -> None:
    got: list[object] = []

    async def ship(number: int, one: Delivery) -> None:
        got.extend([number, one.payload, one.value])

    await caller(ship).one(delivery())
    assert got == [7, 7, b"7"]


async def test_simple_handlers_get_the_value_without_a_delivery() -> None:
    got: list[object] = []

    async def ship(number: int) -> None:
        got.append(number)

    async def look(value: bytes) -> None:
        got.append(value)

    for function in (ship, look):
        made = caller(function)
        assert made.is_plain
        await made.plain()(b"7")
    assert got == [7, b"7"]
    with pytest.raises(PayloadError):
        caller(ship).plain()(b"x")


async def test_what_is_not_simple() -> None:
    async def with_delivery(value: bytes, one: Delivery) -> None: ...
    async def simple(value: bytes) -> None: ...
    async def passing(one: Delivery, go_on: Callable[[], Awaitable[None]]) -> None: ...
    def blocking(value: bytes) -> None: ...

    assert not caller(with_delivery).is_plain
    assert not caller(blocking).is_plain
    assert not caller(simple, passing).is_plain


async def test_middleware_runs_from_outside_in_and_sees_errors() -> None:
    steps: list[str] = []

    async def outer(one: Delivery, go_on: Callable[[], Awaitable[None]]) -> None:
        steps.append("outer")
        try:
            await go_on()
        except ValueError:
            steps.append("outer saw it")
            raise

    async def inner(one: Delivery, go_on: Callable[[], Awaitable[None]]) -> None:
        steps.append("inner")
        await go_on()

    async def ship(value: bytes) -> None:
        steps.append("handler")
        raise ValueError

    with pytest.raises(ValueError):
        await caller(ship, outer, inner).one(delivery())
    assert steps == ["outer", "inner", "handler", "outer saw it"]


async def test_middleware_may_leave_the_handler_out() -> None:
    async def skip(one: Delivery, go_on: Callable[[], Awaitable[None]]) -> None: ...

    async def ship(value: bytes) -> None:
        raise AssertionError

    await caller(ship, skip).one(delivery())


async def test_batch_middleware_gets_the_whole_batch() -> None:
    steps: list[object] = []

    async def around(deliveries: Deliveries, go_on: Callable[[], Awaitable[None]]) -> None:
        steps.append(len(deliveries))
        await go_on()
        steps.append("done")

    async def ship(deliveries: list[Delivery]) -> None:
        steps.append("handler")

    await caller(ship, around, is_batch=True).batch([delivery(b"1"), delivery(b"2")])
    assert steps == [2, "handler", "done"]


async def test_batches() -> None:
    got: list[object] = []

    async def ship(numbers: list[int], deliveries: list[Delivery]) -> None:
        got.extend([numbers, [delivery.value for delivery in deliveries]])

    made, batch = caller(ship, is_batch=True), [delivery(b"1"), delivery(b"2")]
    for each in batch:
        made.decode(each)
    await made.batch(batch)
    assert got == [[1, 2], [b"1", b"2"]]
    with pytest.raises(PayloadError):
        made.decode(delivery(b"x"))


async def test_plain_functions_run_in_a_thread_and_settle_in_the_loop() -> None:
    threads: list[int] = []

    def ship(number: int, one: Delivery) -> None:
        threads.append(threading.get_ident())
        one.accept()

    one = delivery()
    with anyio.fail_after(DEADLINE_S):
        await caller(ship).one(one)
    assert threads != [threading.get_ident()]
    assert lease_of(one.record.batch).states[0] == ACCEPT


async def test_errors_in_threads_are_raised() -> None:
    def ship(one: Delivery) -> None:
        raise ValueError("no")

    one = delivery()
    with anyio.fail_after(DEADLINE_S), pytest.raises(ValueError, match="no"):
        await caller(ship).one(one)
    one.accept_after_handler()
    assert lease_of(one.record.batch).states[0] == ACCEPT


async def test_thread_of_a_cancelled_handler_settles_nothing() -> None:
    """It can't be interrupted. What it decides afterwards must not reach the record, which was handed back."""
    has_begun, may_go_on, has_ended = threading.Event(), threading.Event(), threading.Event()
    found: list[object] = []

    def ship(one: Delivery) -> None:
        has_begun.set()
        may_go_on.wait(DEADLINE_S)
        try:
            found.append(one.is_cancelled)
            one.accept()
        except KshareError as error:
            found.append(str(error))
        has_ended.set()

    one = delivery()
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caller(ship).one, one)
            while not has_begun.is_set():
                await anyio.sleep(0.001)
            tasks.cancel_scope.cancel()
        may_go_on.set()
        while not has_ended.is_set():
            await anyio.sleep(0.001)
    assert found == [True, "the record can no longer be settled: its handler was cancelled"]
    assert lease_of(one.record.batch).states[0] == HELD
    one.accept_after_handler()  # the worker still can
    assert lease_of(one.record.batch).states[0] == ACCEPT


def in_another_process(number: int) -> None:
    if number == 0:
        raise ValueError(str(os.getpid()))


@pytest.mark.lengthy
async def test_plain_functions_run_in_a_process() -> None:
    made = caller(in_another_process, runs_in="process")
    with anyio.fail_after(DEADLINE_S):
        await made.one(delivery(b"1"))
        with pytest.raises(ValueError) as caught:
            await made.one(delivery(b"0"))
        await made.close()
    assert str(caught.value) != str(os.getpid())
