"""Whatever a handler raises: its record is settled by the policy, and the handler is called again."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any, Literal

import anyio
import pytest

from kshare.client.made_records import settlement_of
from kshare.client.record import lease_of
from kshare.errors import KshareError
from kshare.testing import run_worker
from kshare.worker import Delivery, RecordOutcome, Retry, Worker

pytestmark = [pytest.mark.anyio]

LOCK_S = 5.0
SHORT_LOCKS = {"group.share.record.lock.duration.ms": "5000"}


async def cancels_its_own_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(1)


async def awaits_a_cancelled_task() -> None:
    task = asyncio.create_task(asyncio.sleep(10))
    await asyncio.sleep(0)
    task.cancel()
    await task


@pytest.mark.lengthy
@pytest.mark.parametrize("takes_delivery", [False, True])
def test_a_handler_that_cancels_its_task_releases_its_record_only(takes_delivery: bool) -> None:
    worker = Worker(group="g", concurrency=2)
    got: list[str] = []

    async def ship(value: str) -> None:
        if value == "bad" and not got.count("bad"):
            got.append(value)
            await cancels_its_own_task()
        got.append(value)

    async def ship_delivery(value: str, delivery: Delivery) -> None:
        await ship(value)

    worker.handler("orders")(ship_delivery if takes_delivery else ship)
    with run_worker(worker) as running:
        running.produce("orders", b"bad", b"1", b"2", b"3")
        running.wait_until(lambda: len(got) == 5)
        running.produce("orders", b"4", b"5")
        running.wait_until(lambda: len(got) == 7)
        running.wait_until_settled()
        [counts] = running.counts.values()
        assert (counts.cancelled, counts.failed, counts.done) == (1, 0, 6)


@pytest.mark.lengthy
@pytest.mark.parametrize("calls", ["with value", "with delivery", "with batch"])
def test_awaiting_what_somebody_else_has_cancelled_is_a_failure(calls: str) -> None:
    """It was a cancellation of the handler once: five at once, and brokers archived the record."""
    worker = Worker(group="g", retry=Retry(attempts=3, delay=1), dead_letters="dead")
    attempts: list[bytes] = []

    async def ship(value: bytes) -> None:
        attempts.append(value)
        await awaits_a_cancelled_task()

    async def ship_delivery(value: bytes, delivery: Delivery) -> None:
        await ship(value)

    async def ship_batch(values: list[bytes]) -> None:
        await ship(values[0])

    if calls == "with batch":
        worker.batch_handler("orders", batch_size=1, batch_wait=0.1)(ship_batch)
    else:
        worker.handler("orders")(ship_delivery if calls == "with delivery" else ship)
    with run_worker(worker) as running:
        running.produce("orders", b"bad")
        running.wait_until(lambda: len(attempts) == 1)
        running.advance(5)
        running.wait_until_settled()
        [counts] = running.counts.values()
        assert len(running.records("dead")) == 1
    assert (counts.cancelled, counts.failed) == (0, 3)


@pytest.mark.lengthy
def test_awaiting_in_a_dead_letter_function_what_somebody_else_has_cancelled() -> None:
    worker = Worker(group="g", retry=Retry(attempts=1))
    kept: list[bytes] = []
    calls: list[bytes] = []

    async def keep(delivery: Delivery, reason: str) -> None:
        calls.append(delivery.value or b"")
        if len(calls) == 1:
            await awaits_a_cancelled_task()
        kept.append(delivery.value or b"")

    @worker.handler("orders", dead_letters=keep)
    async def ship(value: bytes) -> None:
        raise ValueError("bad")

    with run_worker(worker) as running:
        running.produce("orders", b"bad")
        running.wait_until(lambda: len(calls) == 1)
        running.advance(5)
        running.wait_until_settled()
    assert kept == [b"bad"]


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("runs_in", "error"),
    [
        ("loop", SystemExit),
        ("loop", KeyboardInterrupt),  # the worker doesn't run in the main thread
        ("loop", GeneratorExit),
        ("thread", SystemExit),
        ("thread", KeyboardInterrupt),  # never Ctrl-C, which is announced in the main thread
        ("thread", GeneratorExit),
        ("thread", asyncio.CancelledError),
    ],
)
def test_exceptions_that_end_programs_are_the_failure_of_one_record(
    runs_in: str, error: type[BaseException]
) -> None:
    worker = Worker(group="g", retry=Retry(attempts=2, delay=1), dead_letters="dead")
    got: list[str] = []

    def plain(value: str) -> None:
        if value == "bad":
            raise error
        got.append(value)

    async def in_loop(value: str) -> None:
        plain(value)

    worker.handler("orders")(in_loop if runs_in == "loop" else plain)
    with run_worker(worker) as running:
        running.produce("orders", b"bad", b"good")
        running.wait_until(lambda: len(got) == 1)
        running.advance(3)
        running.wait_until_settled()
        [letter] = running.records("dead")
        assert letter.value == b"bad"


@pytest.mark.lengthy
async def test_a_plain_function_that_returns_a_coroutine_has_not_processed_anything() -> None:
    async def send(value: str) -> None: ...

    def ship(value: str) -> Any:
        return send(value)

    worker = Worker(group="g")
    worker.handler("orders")(ship)
    trial = await worker.test("1")
    assert trial.outcome is RecordOutcome.HELD
    assert "returned a coroutine that nobody awaits" in str(trial.error)
    gc.collect()


async def test_a_middleware_must_await_the_handler() -> None:
    worker = Worker(group="g")
    called: list[str] = []

    @worker.middleware
    async def forgets(delivery: Delivery, go_on: Callable[[], Awaitable[None]]) -> None:
        _ = go_on()

    @worker.handler("orders")
    async def ship(value: str) -> None:
        called.append(value)

    trial = await worker.test("1")
    assert trial.outcome is RecordOutcome.HELD
    assert "it must await the function that it is passed" in str(trial.error)
    assert not called


async def test_a_middleware_may_leave_the_handler_out() -> None:
    worker = Worker(group="g")

    @worker.middleware
    async def skips(delivery: Delivery, go_on: Callable[[], Awaitable[None]]) -> None: ...

    @worker.handler("orders")
    async def ship(value: str) -> None:
        await anyio.sleep_forever()

    assert (await worker.test("1")).outcome is RecordOutcome.ACCEPTED


@pytest.mark.lengthy
def test_done_is_counted_while_a_later_record_is_awaited() -> None:
    """Records whose handlers don't suspend are processed in one time slice; one that suspends may take long."""
    worker = Worker(group="g")
    waits: list[bytes] = []
    goes_on = threading.Event()

    async def ship(value: bytes) -> None:
        if value == b"slow":
            waits.append(value)
            while not goes_on.is_set():
                await anyio.sleep(0.01)

    worker.handler("orders")(ship)
    with run_worker(worker) as running:
        running.produce("orders", *[b"quick"] * 2000, b"slow")
        running.wait_until(lambda: bool(waits))
        [counts] = running.counts.values()
        assert counts.done == 2000
        goes_on.set()
        running.wait_until_settled()
        [counts] = running.counts.values()
        assert counts.done == 2001


@pytest.mark.parametrize("runs_in", ["loop", "thread"])
async def test_what_a_handler_has_left_behind_decides_nothing(runs_in: str) -> None:
    """Its record is held for the next attempt, or was handed back."""
    worker = Worker(group="g")
    given: list[Delivery] = []

    def fail(delivery: Delivery) -> None:
        given.append(delivery)
        raise ValueError

    async def fail_in_loop(delivery: Delivery) -> None:
        fail(delivery)

    worker.handler("orders")(fail_in_loop if runs_in == "loop" else fail)
    trial = await worker.test("1")
    assert trial.outcome is RecordOutcome.HELD
    [delivery] = given
    with pytest.raises(KshareError, match="can no longer be settled: its handler has ended"):
        delivery.accept()
    with pytest.raises(KshareError, match="can no longer be settled: its handler has ended"):
        await anyio.to_thread.run_sync(delivery.accept)
    assert settlement_of(delivery.record) is None


async def test_on_error_and_middleware_may_decide_when_the_handler_has_failed() -> None:
    worker = Worker(group="g")

    @worker.on_error
    def report(delivery: Delivery, error: BaseException) -> None:
        delivery.reject("reported")

    @worker.middleware
    async def judge(delivery: Delivery, go_on: Callable[[], Awaitable[None]]) -> None:
        try:
            await go_on()
        except KeyError:
            delivery.reject("judged")

    @worker.handler("orders")
    def ship(value: bytes) -> None:
        raise KeyError if value == b"key" else ValueError

    for value in ("key", "other"):
        assert (await worker.test(value)).outcome is RecordOutcome.REJECTED


@pytest.mark.lengthy
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("is_batch", [False, True])
def test_a_filter_that_wants_to_end_the_program_fails_its_record(
    error: type[BaseException], is_batch: bool
) -> None:
    def only(delivery: Delivery) -> bool:
        if delivery.value == b"bad":
            raise error
        return True

    worker = Worker(group="g", retry=Retry(attempts=1), dead_letters="dead", only=only)
    got: list[bytes] = []

    async def ship(value: bytes) -> None:
        got.append(value)

    async def ship_all(values: list[bytes]) -> None:
        got.extend(values)

    if is_batch:
        worker.batch_handler("orders")(ship_all)
    else:
        worker.handler("orders")(ship)
    with run_worker(worker) as running:
        running.produce("orders", b"1", b"bad", b"2")
        running.wait_until(lambda: len(got) == 2 and bool(running.records("dead")))
        assert [record.value for record in running.records("dead")] == [b"bad"]


async def in_a_scope() -> AsyncIterator[int]:
    with anyio.CancelScope():
        yield 1


async def in_a_group() -> AsyncIterator[int]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.sleep, 3600)
        yield 1


async def with_a_deadline() -> AsyncIterator[int]:
    with anyio.move_on_after(0.05):
        yield 1


LEFT: list[AsyncIterator[int]] = []


@pytest.fixture
def left_open() -> list[AsyncIterator[int]]:
    """Generators that handlers have left open, and that aren't collected."""
    LEFT.clear()
    return LEFT


@pytest.mark.lengthy
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("left", [in_a_scope, in_a_group, with_a_deadline])
@pytest.mark.parametrize("takes", ["payload", "delivery", "batch"])
@pytest.mark.parametrize("end", ["return", "wait", "raise"])
def test_a_scope_that_a_handler_leaves_open_harms_no_other_record(
    left: Callable[[], AsyncIterator[int]],
    takes: str,
    end: str,
    backend: Literal["asyncio", "trio"],
    left_open: list[AsyncIterator[int]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker = Worker(group="g", concurrency=1, retry=Retry(attempts=2, delay=0.01), breaker=None)
    got: list[bytes] = []

    async def ship(value: bytes) -> None:
        is_again = value in got
        got.append(value)
        if value.startswith(b"bad") and not is_again:
            if end == "wait":
                await anyio.sleep(0.001)
            left_open.append(left())
            await anext(left_open[-1])
            if end == "raise":
                raise ValueError
        elif value.startswith(b"slow"):
            await anyio.sleep(0.1)

    async def ship_delivery(value: bytes, delivery: Delivery) -> None:
        await ship(value)

    async def ship_all(values: list[bytes]) -> None:
        for value in values:
            await ship(value)

    if takes == "batch":
        worker.batch_handler("orders", batch_size=1)(ship_all)
    else:
        worker.handler("orders")(ship if takes == "payload" else ship_delivery)
    orders = [b"1", b"bad 1", b"slow 1", b"bad 2", b"slow 2"]
    with run_worker(worker, backend=backend) as running:
        running.produce("orders", *orders)
        running.wait_until_settled()
        [counts] = running.counts.values()
        failed = 2 if end == "raise" else 0
        assert (counts.done, counts.failed, counts.cancelled) == (5, failed, 0)
    assert sorted(got) == sorted(orders + ([b"bad 1", b"bad 2"] if failed else []))
    assert "left a cancel scope open" in caplog.text


def shipping(
    is_wanted: Callable[[Delivery], bool], called: list[object], *, is_batch: bool, **options: Any
) -> Worker:
    """A worker whose handler notes the values that it is called with."""
    worker = Worker(group="g", **options)

    async def ship(value: str) -> None:
        called.append(value)

    async def ship_all(values: list[str]) -> None:
        called.extend(values)

    if is_batch:
        worker.batch_handler("orders", batch_size=2, only=is_wanted)(ship_all)
    else:
        worker.handler("orders", only=is_wanted)(ship)
    return worker


@pytest.mark.parametrize("is_batch", [False, True])
def test_records_that_lose_their_locks_just_before_the_call_are_not_processed(is_batch: bool) -> None:
    """In a batch, a dead letter of another record may take longer than a lock lasts."""
    called: list[object] = []

    def is_wanted(delivery: Delivery) -> bool:
        if delivery.offset == 1:
            lease_of(delivery.record.batch).lose()
        return True

    with run_worker(shipping(is_wanted, called, is_batch=is_batch)) as running:
        running.produce("orders", b"0", b"1")
        running.wait_until(lambda: sum(count.lost for count in running.counts.values()) == 1 + is_batch)
    assert "1" not in called


@pytest.mark.parametrize("is_batch", [False, True])
def test_records_whose_locks_expire_just_before_the_call_are_not_processed(
    is_batch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing has noticed that, because something has blocked the event loop."""
    called: list[object] = []
    blocked_s = [0.0]
    clock = SimpleNamespace(
        monotonic=lambda: time.monotonic() + blocked_s[0], time=time.time, sleep=time.sleep
    )
    monkeypatch.setattr("kshare.testing.running_worker.time", clock)

    def is_wanted(delivery: Delivery) -> bool:
        if delivery.offset == 1:
            blocked_s[0] = LOCK_S
        return True

    worker = shipping(is_wanted, called, is_batch=is_batch, concurrency=1)
    with run_worker(worker, settings=SHORT_LOCKS) as running:
        running.produce("orders", b"0", b"1")
        running.wait_until(lambda: sum(count.lost for count in running.counts.values()) >= 1)
        assert "1" not in called
