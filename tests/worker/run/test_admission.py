"""What may stop a handler, and that it goes on afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Literal

import anyio
import pytest

from kshare import ShareConsumer
from kshare.errors import InProgress
from kshare.testing import Broker, run_worker
from kshare.worker import Breaker, Delivery, Retry, Worker
from tests.helpers.consuming import DEADLINE_S, until
from tests.helpers.running_worker import from_the_start, running

BREAKER = Breaker(min_failures=3, failing_share=0.1, probe_after=1.0)


@pytest.mark.lengthy
@pytest.mark.parametrize("probe", ["filtered", "unreadable", "in progress", "cancelled"])
def test_a_probe_without_a_result_is_followed_by_another(probe: str) -> None:
    """Otherwise the breaker would never close."""
    worker = Worker(
        group="g",
        breaker=BREAKER,
        retry=Retry(delay=600),
        time_limit=5,
        concurrency=1,
        only=lambda delivery: delivery.value != b"0" or probe != "filtered",
    )
    is_down = True
    tried: list[int] = []
    got: list[int] = []

    @worker.handler("orders")
    async def ship(number: int) -> None:
        if number == 0:
            tried.append(number)
            if probe == "in progress":
                raise InProgress("ship", retry_after=600)
            await anyio.sleep(1000)
        if is_down:
            raise ConnectionError
        got.append(number)

    with run_worker(worker) as running:
        running.produce("orders", b"1", b"2", b"3")
        running.wait_until(lambda: running.worker.health().handlers[0].breaker == "open")
        running.produce("orders", b"broken" if probe == "unreadable" else b"0")
        for _ in range(4):
            running.advance(3)
        counts = running.counts["ship"]
        assert tried or counts.filtered or counts.dead
        is_down = False
        running.produce("orders", b"4", b"5")
        for _ in range(16):  # one that hangs comes first, until its deliveries are used up
            running.advance(3)
        running.wait_until(lambda: {4, 5} <= {*got})


def handle(worker: Worker, ship: Callable[[list[int]], Awaitable[None]], *, batch_size: int | None) -> None:
    """Let it process orders: one by one, or in batches."""
    if batch_size is not None:

        @worker.batch_handler("orders", batch_size=batch_size)
        async def ship_batch(numbers: list[int]) -> None:
            await ship(numbers)

    else:

        @worker.handler("orders")
        async def ship_one(number: int) -> None:
            await ship([number])


@pytest.mark.lengthy
@pytest.mark.parametrize("is_batch", [False, True])
def test_a_dependency_that_hangs_opens_the_breaker(is_batch: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Each timeout costs a record one of its deliveries."""
    worker = Worker(group="g", breaker=BREAKER, time_limit=5, concurrency=4)
    is_down = True
    started: list[int] = []
    got: list[int] = []

    async def ship(numbers: list[int]) -> None:
        started.extend(numbers)
        if is_down:
            await anyio.sleep(1000)
        got.extend(numbers)

    handle(worker, ship, batch_size=2 if is_batch else None)

    with run_worker(worker) as running:
        running.produce("orders", *(b"%d" % number for number in range(60)))
        running.wait_until(lambda: len(started) >= 4)
        running.advance(6)
        running.wait_until(lambda: running.worker.health().handlers[0].breaker == "open")
        for _ in range(10):
            running.advance(6)
        assert len(started) < 40
        is_down = False
        for _ in range(6):
            running.advance(3)
        running.wait_until(lambda: {*got} == {*range(60)})
    why = "it opens, because most runs fail (the last one with a timeout)"
    assert f"the circuit breaker has changed: {why}" in caplog.text


@pytest.mark.lengthy
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_records_that_hang_at_different_times_do_not_stop_a_handler(
    backend: Literal["asyncio", "trio"],
) -> None:
    """While a call was running, there was no room for a record to probe with. One of two was always running."""
    worker = Worker(group="g", breaker=BREAKER, time_limit=5, concurrency=10)
    hanging, good = 5, 100
    started: list[int] = []
    got: list[int] = []

    @worker.handler("orders")
    async def ship(number: int) -> None:
        started.append(number)
        if number < hanging:
            await anyio.sleep_forever()
        got.append(number)

    with run_worker(worker, backend=backend) as running:
        for number in range(hanging):
            running.produce("orders", b"%d" % number)
            running.wait_until(lambda: len(started) > number)  # noqa: B023  called at once
            running.advance(1)
        for _ in range(10):
            running.advance(0.5)
        assert running.worker.health().handlers[0].breaker != "closed"
        running.produce("orders", b"%d" % good)
        for _ in range(80):
            running.advance(0.25)
        running.wait_until(lambda: got == [good])


@pytest.mark.lengthy
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_breaker_that_opens_again_and_again_logs_few_lines(
    backend: Literal["asyncio", "trio"], caplog: pytest.LogCaptureFixture
) -> None:
    """It logged two lines for each probe that succeeded. The last line says what it is."""
    worker = Worker(group="g", breaker=BREAKER, retry=Retry(attempts=1), concurrency=1)
    is_down = True

    @worker.handler("orders")
    async def ship(number: int) -> None:
        if is_down:
            raise ConnectionError

    with run_worker(worker, backend=backend) as running:

        def breaker() -> str:
            running.advance(0.5)
            return running.worker.health().handlers[0].breaker

        for _ in range(10):
            is_down = True
            running.produce("orders", *[b"1"] * 4)
            running.wait_until(lambda: breaker() == "open")
            is_down = False
            running.wait_until(lambda: breaker() == "closed")
    lines = [message for message in caplog.messages if "the circuit breaker has changed" in message]
    assert len(lines) < 10
    assert lines[0].endswith("nothing is acquired, and a record is tried every 1 s")
    assert lines[-1].endswith("the latest): it closes, because a record was processed")


@pytest.mark.lengthy
@pytest.mark.parametrize("concurrency", [3, 9])
def test_a_dependency_that_hangs_costs_few_deliveries_if_few_records_are_processed_at_once(
    concurrency: int,
) -> None:
    """The breaker never opened, because fewer than ten can fail in its window: all were archived."""
    worker = Worker(group="g", time_limit=300, concurrency=concurrency)
    is_down = True
    got: dict[int, int] = {}

    @worker.handler("orders")
    async def ship(number: int, delivery: Delivery) -> None:
        if is_down:
            await anyio.sleep_forever()
        got[number] = delivery.delivery_count

    with run_worker(worker) as running:
        running.produce("orders", *(b"%d" % number for number in range(9)))
        for _ in range(20):  # at its start, a handler acquires few records
            running.advance(0.2)
        running.wait_until(lambda: running.worker.runners[0].running == concurrency)
        for _ in range(6):
            running.advance(301)
        assert running.worker.health().handlers[0].breaker != "closed"
        is_down = False
        running.advance(301)  # a probe still hangs
        for _ in range(10):
            running.advance(3)
        running.wait_until(lambda: {*got} == {*range(9)})
    assert max(got.values()) <= 3


@pytest.mark.lengthy
def test_one_record_that_hangs_in_a_batch_does_not_stop_the_handler() -> None:
    """Each record of the batch counted as a failure, and ten of them opened the breaker."""
    worker = Worker(group="g", time_limit=5, dead_letters="bad")
    states: set[str] = set()
    got: set[int] = set()

    @worker.batch_handler("orders", batch_size=20)
    async def ship(numbers: list[int]) -> None:
        if 3 in numbers:
            await anyio.sleep(1000)
        got.update(numbers)

    with run_worker(worker) as running:
        running.produce("orders", *(b"%d" % number for number in range(40)))
        for _ in range(20):
            running.advance(3)
            states.add(running.worker.health().handlers[0].breaker)
        running.wait_until(lambda: got == {*range(40)} - {3})
    assert states == {"closed"}


@pytest.mark.lengthy
@pytest.mark.parametrize("is_batch", [False, True])
def test_a_record_that_always_hangs_is_handed_back_while_others_are_processed(is_batch: bool) -> None:
    """It was kept again and again, and the others waited behind it: in a batch, for ever."""
    worker = Worker(group="g", breaker=BREAKER, time_limit=5, concurrency=4, dead_letters="bad")
    tries: Counter[int] = Counter()
    got: list[int] = []

    async def ship(numbers: list[int]) -> None:
        tries.update(numbers)
        if 3 in numbers:
            await anyio.sleep(1000)
        got.extend(numbers)

    handle(worker, ship, batch_size=10 if is_batch else None)

    with run_worker(worker) as running:
        running.produce("orders", *(b"%d" % number for number in range(40)))
        for _ in range(20):
            running.advance(6)
        running.wait_until(lambda: [record.value for record in running.records("bad")] == [b"3"])
        assert {*got} == {*range(40)} - {3}
    assert max(tries[number] for number in got) <= (4 if is_batch else 1)


@pytest.mark.lengthy
def test_a_handler_that_was_paused_goes_on_though_another_one_goes_before_it() -> None:
    worker = Worker(group="g", concurrency=1)
    low: list[str] = []
    lets_go = False

    @worker.handler("urgent", priority=1)
    async def first(value: str) -> None:
        if value == "0":
            worker.pause("second", 5)
        while not lets_go:
            await anyio.sleep(0.01)

    @worker.handler("orders")
    async def second(value: str) -> None:
        low.append(value)

    with run_worker(worker) as running:
        running.produce("urgent", *(b"%d" % number for number in range(5)))
        running.produce("orders", b"1")
        running.wait_until(lambda: running.worker.runners[0].running == 1)
        running.advance(6)
        assert not low
        lets_go = True
        running.wait_until(lambda: low == ["1"])


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_a_long_pause_hands_back_what_pins_too_much(kshare_broker: Broker) -> None:
    """Otherwise its locks would be renewed all the time, and nobody else got the records."""
    kshare_broker.create_topic("orders")
    kshare_broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
    kshare_broker.produce("orders", [b"%d" % number for number in range(3000)])
    worker = Worker(kshare_broker.bootstrap, group="g", concurrency=1, max_pinned=0.001)
    go_on, blocked = anyio.Event(), anyio.Event()

    @worker.handler("orders")
    async def ship(number: int) -> None:
        if number == 1000:
            blocked.set()
        if number >= 1000:
            await go_on.wait()

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await blocked.wait()
        worker.pause("ship", 600)
        await until(lambda: worker.runners[0].counts.released > 0)
        async with ShareConsumer(kshare_broker.bootstrap, group="g", topics=["orders"]) as other:
            got = 0
            with anyio.fail_after(DEADLINE_S):
                async for batch in other.batches():
                    got += len(batch)
                    if got == 1997:  # without the one that is processed, and two that pin little
                        break
        worker.stop()
        go_on.set()


@pytest.mark.lengthy
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_pauses_archive_nothing_that_nobody_has_tried(backend: Literal["asyncio", "trio"]) -> None:
    """Locks last 30 s. What was released for each pause became a dead letter, or was archived."""
    worker = Worker(group="g", concurrency=1, dead_letters="dead")
    got: list[int] = []
    deliveries: list[int] = []

    @worker.handler("orders")
    async def ship(number: int, delivery: Delivery) -> None:
        got.append(number)
        deliveries.append(delivery.delivery_count)
        if len(got) > 600:  # until then, it has become fast, and much is in hand
            worker.pause("ship", 31)

    with run_worker(worker, backend=backend) as running:
        running.produce("orders", *[b"%d" % number for number in range(608)])
        running.wait_until(lambda: len(got) > 600, timeout=30.0)
        for _ in range(16):
            running.advance(40)
        running.wait_until_settled()
        [counts] = running.counts.values()
        assert (counts.released, counts.lost, counts.dead) == (0, 0, 0)
    assert sorted(got) == [*range(608)]
    assert max(deliveries) == 1


@pytest.mark.lengthy
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_what_pauses_hand_back_comes_again(backend: Literal["asyncio", "trio"]) -> None:
    """After the first pause, nothing more was fetched: 603 of 608 records were processed, 5 released, for ever."""
    worker = Worker(group="g", concurrency=1, dead_letters="dead", max_pinned=0.001)
    got: list[int] = []
    deliveries: list[int] = []

    @worker.handler("orders")
    async def ship(number: int, delivery: Delivery) -> None:
        got.append(number)
        deliveries.append(delivery.delivery_count)
        if len(got) > 600:
            worker.pause("ship", 31)

    with run_worker(worker, backend=backend) as running:
        running.produce("orders", *[b"%d" % number for number in range(608)])
        running.wait_until(lambda: len(got) > 600, timeout=30.0)
        for _ in range(16):
            running.advance(40)
        running.wait_until_settled()
        [counts] = running.counts.values()
        assert counts.released > 0
        assert (counts.lost, counts.dead) == (0, 0)
    assert sorted(got) == [*range(608)]
    assert max(deliveries) == 2


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_a_rate_limit_of_a_higher_priority_leaves_time_for_a_lower_one(kshare_broker: Broker) -> None:
    """The lower one got nothing until all records of the higher one were processed."""
    from_the_start(kshare_broker)
    for topic in ("urgent", "orders"):
        kshare_broker.create_topic(topic)
    worker = Worker(kshare_broker.bootstrap, group="g", drain_timeout=0.1)
    urgent: list[int] = []
    low: list[int] = []

    @worker.handler("urgent", priority=1, rate_limit=0.5)
    async def first(number: int) -> None:
        urgent.append(number)

    @worker.handler("orders")
    async def second(number: int) -> None:
        low.append(number)

    kshare_broker.produce("urgent", [b"%d" % number for number in range(10)])
    async with running(worker):
        await until(lambda: len(urgent) == 1)
        kshare_broker.produce("orders", [b"%d" % number for number in range(50)])
        await until(lambda: len(low) == 50)
        assert worker.runners[0].queue.has_ready


def test_a_pause_of_no_time_ends_the_pause() -> None:
    worker = Worker(group="g")
    got: list[int] = []

    @worker.handler("orders")
    async def ship(number: int) -> None:
        got.append(number)

    with run_worker(worker) as running:
        running.worker.pause("orders", 3600)
        running.produce("orders", b"1")
        running.advance(5)
        assert got == []
        assert running.worker.health().handlers[0].state == "paused"
        running.worker.pause("orders", 0)
        running.wait_until(lambda: got == [1])


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_records_that_succeed_while_the_first_one_hangs_keep_the_breaker_closed(
    kshare_broker: Broker,
) -> None:
    """What was processed before running handlers were looked after, up to a second later, counted as earlier."""
    from_the_start(kshare_broker)
    kshare_broker.create_topic("t")
    worker = Worker(kshare_broker.bootstrap, group="g", time_limit=1.5, concurrency=10, dead_letters="dead")
    states: set[str] = set()
    done: list[int] = []
    hung: list[int] = []

    @worker.handler("t")
    async def process(number: int) -> None:
        if number in (1, 2, 3):
            hung.append(number)
            await anyio.sleep_forever()
        done.append(number)

    async with running(worker):
        kshare_broker.produce("t", [b"0"])
        await until(lambda: done == [0])
        await anyio.sleep(0.3)
        kshare_broker.produce("t", [b"%d" % number for number in range(1, 11)])
        await until(lambda: len(done) == 8)
        while len(hung) < 6:  # each of them has hung once
            states.add(worker.health().handlers[0].breaker)
            await anyio.sleep(0.01)
    assert states == {"closed"}
