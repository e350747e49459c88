"""What handlers publish is written before their record is accepted, and only if it is."""

from __future__ import annotations

import os

import anyio
import pytest

from kshare import ConfigError
from kshare.errors import KshareError
from kshare.idempotency import MemoryStore, idempotent
from kshare.testing import Broker, run_worker
from kshare.worker import Deliveries, Delivery, Retry, SampleRecord, Worker
from tests.helpers.running_worker import from_the_start, running, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    from_the_start(kshare_broker)
    kshare_broker.create_topic("orders")
    kshare_broker.create_topic("prices")
    return kshare_broker


def values(broker: Broker, topic: str = "prices") -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


async def test_results_are_written_in_order_and_then_the_record_is_accepted(broker: Broker) -> None:
    worker = Worker(broker.bootstrap, group="g")

    @worker.handler("orders")
    async def price(delivery: Delivery) -> None:
        buffer = bytearray(b"first")
        delivery.publish("prices", buffer, key=b"k", headers=[("trace", b"1")])  # type: ignore[arg-type]
        buffer[:] = b"other"
        delivery.publish("prices", None, key=b"k")
        await anyio.sleep(0.05)
        assert values(broker) == []

    broker.produce("orders", [b"tea"])
    async with running(worker):
        await until(lambda: worker.runners[0].counts.done == 1)
        first, second = broker.records("prices")
    assert (first.value, first.key, list(first.headers)) == (b"first", b"k", [("trace", b"1")])
    assert second.value is None


@pytest.mark.lengthy
@pytest.mark.parametrize("end", ["raise", "release", "reject", "delay", "cancel"])
async def test_nothing_is_published_unless_the_record_is_accepted(broker: Broker, end: str) -> None:
    limit = 0.2 if end == "cancel" else 30.0
    worker = Worker(broker.bootstrap, group="g", retry=Retry(attempts=2, delay=0.01), time_limit=limit)
    calls: list[int] = []

    @worker.handler("orders")
    async def price(delivery: Delivery) -> None:
        calls.append(delivery.attempt)
        delivery.publish("prices", b"%d" % len(calls))
        if len(calls) > 1:
            return
        match end:
            case "raise":
                raise ValueError
            case "release":
                delivery.release()
            case "delay":
                delivery.release(delay=0.01)
            case "reject":
                delivery.reject()
            case "cancel":
                await anyio.sleep(30)

    broker.produce("orders", [b"tea"])
    async with running(worker):
        await until(lambda: worker.runners[0].counts.done + worker.runners[0].counts.dead == 1)
    assert values(broker) == ([] if end == "reject" else [b"2"])


@pytest.mark.lengthy
async def test_accepting_early_waits_for_the_results_and_holds_if_the_handler_raises(broker: Broker) -> None:
    worker = Worker(broker.bootstrap, group="g")

    @worker.handler("orders")
    async def price(delivery: Delivery) -> None:
        delivery.publish("prices", b"1")
        delivery.accept()
        with pytest.raises(KshareError, match="is accepted already: publish its results before"):
            delivery.publish("prices", b"2")
        raise ValueError

    broker.produce("orders", [b"tea"])
    async with running(worker):
        await until(lambda: worker.runners[0].counts.done == 1)
        assert worker.runners[0].counts.failed == 1
    assert values(broker) == [b"1"]


@pytest.mark.lengthy
async def test_results_that_cannot_be_written_fail_the_handler(broker: Broker) -> None:
    dead: list[str] = []

    async def keep(delivery: Delivery, reason: str) -> None:
        dead.append(reason)

    policy = Retry(attempts=2, delay=0.01)
    worker = Worker(broker.bootstrap, group="g", retry=policy, dead_letters=keep, breaker=None)

    @worker.handler("orders")
    async def price(value: bytes, delivery: Delivery) -> None:
        delivery.publish("prices", os.urandom(2 * 1024 * 1024) if value == b"huge" else value)
        if value == b"huge" and delivery.attempt == 2:
            delivery.accept()

    broker.produce("orders", [b"huge", b"tea"])
    async with running(worker):
        await until(lambda: (worker.runners[0].counts.done, worker.runners[0].counts.dead) == (1, 1))
        assert worker.runners[0].counts.failed == 2
    assert len(dead) == 1
    assert "in attempt 2" in dead[0]
    assert values(broker) == [b"tea"]


@pytest.mark.lengthy
async def test_results_of_a_batch_are_written_before_any_of_it_is_accepted(broker: Broker) -> None:
    worker = Worker(broker.bootstrap, group="g", retry=Retry(attempts=3, delay=0.01), breaker=None)
    sizes: list[int] = []

    @worker.batch_handler("orders", batch_size=4, batch_wait=1.0)
    async def total(deliveries: Deliveries) -> None:
        sizes.append(len(deliveries))
        deliveries.publish("prices", b"total of %d" % len(deliveries))
        deliveries[-1].publish("prices", b"last", partition=7 if len(sizes) == 1 else None)
        deliveries.accept_all()

    broker.produce("orders", [b"%d" % number for number in range(4)])
    async with running(worker):
        await until(lambda: worker.runners[0].counts.done == 4)
        assert worker.runners[0].counts.failed == 4
    # The first time, the partition of the last one doesn't exist. The first result is on its way already then.
    assert values(broker)[-2:] == [b"total of 4", b"last"] or sizes[1:] != [4]
    assert values(broker).count(b"last") >= 1


@pytest.mark.lengthy
@pytest.mark.parametrize("first", ["reject", "release", "delay"])
async def test_results_of_a_batch_are_written_whatever_becomes_of_its_first_record(
    broker: Broker, first: str
) -> None:
    worker = Worker(broker.bootstrap, group="g", retry=Retry(delay=60.0))

    @worker.batch_handler("orders", batch_size=4, batch_wait=1.0)
    async def total(deliveries: Deliveries) -> None:
        if deliveries[0].redelivered:
            return
        deliveries.publish("prices", b"total")
        match first:
            case "reject":
                deliveries[0].reject()
            case "release":
                deliveries[0].release()
            case "delay":
                deliveries[0].release(delay=60.0)

    broker.produce("orders", [b"%d" % number for number in range(4)])
    async with running(worker):
        await until(lambda: worker.runners[0].counts.done >= 3)
    assert values(broker) == [b"total"]


@pytest.mark.lengthy
@pytest.mark.parametrize("end", ["return", "raise"])
@pytest.mark.parametrize("accepts", ["all", "each", "last"])
async def test_no_record_of_a_batch_is_accepted_before_its_results_are_written(
    broker: Broker, end: str, accepts: str
) -> None:
    """The first time, they can't be written: then none was accepted, and the handler gets all of them again."""
    worker = Worker(broker.bootstrap, group="g", retry=Retry(attempts=3, delay=0.01), breaker=None)
    seen: list[bytes] = []

    @worker.batch_handler("orders", batch_size=4, batch_wait=1.0)
    async def total(deliveries: Deliveries) -> None:
        is_first = not seen
        seen.extend(delivery.value or b"" for delivery in deliveries)
        deliveries.publish("prices", b"total", partition=7 if is_first else None)
        match accepts:
            case "all":
                deliveries.accept_all()
            case "each":
                for delivery in deliveries:
                    delivery.accept()
            case "last":
                deliveries[-1].accept()
        if end == "raise":
            raise ValueError

    orders = [b"%d" % number for number in range(4)]
    broker.produce("orders", orders)
    async with running(worker):
        await until(lambda: worker.runners[0].counts.done + worker.runners[0].counts.dead == 4)
    assert sorted(seen[:4]) == orders
    assert {*orders} <= {*seen[4:]}, "accepted without their result"
    assert values(broker)


async def test_a_batch_cannot_publish_when_records_of_it_are_accepted(broker: Broker) -> None:
    worker = Worker(group="g")

    @worker.batch_handler("orders")
    async def total(deliveries: Deliveries) -> None:
        deliveries[0].accept()
        deliveries.publish("prices", b"total")

    first, second = await worker.test_batch([b"1", b"2"])
    assert (first.outcome, second.outcome, second.results) == ("accepted", "held", [])
    assert "records of the batch are accepted already: publish results before that" in str(second.error)


async def test_a_part_of_a_batch_publishes_for_the_whole() -> None:
    worker = Worker(group="g")

    @worker.batch_handler("orders")
    async def total(deliveries: Deliveries) -> None:
        deliveries.publish("prices", b"total")
        good = Deliveries(deliveries[1:])
        good.publish("prices", b"good")
        good.accept_all()

    trials = await worker.test_batch([b"1", b"2"])
    assert [trial.outcome for trial in trials] == ["accepted", "accepted"]
    assert [result.value for result in trials[0].results] == [b"total", b"good"]


async def test_a_batch_that_is_given_up_as_a_whole_publishes_nothing() -> None:
    worker = Worker(group="g")

    @worker.batch_handler("orders")
    async def total(deliveries: Deliveries) -> None:
        deliveries.publish("prices", b"total")
        deliveries.reject_all()

    trials = await worker.test_batch([b"1", b"2"])
    assert [(trial.outcome, trial.results) for trial in trials] == [("rejected", [])] * 2


def test_plain_functions_publish_from_their_thread() -> None:
    worker = Worker(group="g")

    @worker.handler("orders")
    def price(value: bytes, delivery: Delivery) -> None:
        delivery.publish("prices", value)

    with run_worker(worker) as running_worker:
        running_worker.broker.create_topic("prices")
        running_worker.produce("orders", b"1", b"2")
        running_worker.wait_until_settled()
        assert sorted(record.value or b"" for record in running_worker.records("prices")) == [b"1", b"2"]


async def test_trials_show_the_results() -> None:
    worker = Worker(group="g")

    @worker.handler("orders")
    async def price(value: bytes, delivery: Delivery) -> None:
        delivery.publish("prices", value, key=delivery.key)
        if value == b"bad":
            raise ValueError

    trial = await worker.test(SampleRecord(value=b"tea", key=b"k"))
    assert trial.outcome == "accepted"
    assert [(result.topic, result.key, result.value) for result in trial.results] == [
        ("prices", b"k", b"tea")
    ]
    assert (await worker.test(b"bad")).results == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", b"1"), "topic must be a non-empty string"),
        (("prices", "1"), "value must be bytes or None, not str"),
        (("prices", b"1", "k"), "key must be bytes or None, not str"),
        (("prices", b"1", None, (), -1), "partition must be a whole number, 0 or more"),
        (("prices", b"1", None, ("trace",)), "headers must be pairs"),
    ],
)
async def test_what_cannot_be_a_record_is_refused_where_it_is_published(
    arguments: tuple[object, ...], message: str
) -> None:
    worker = Worker(group="g")

    @worker.handler("orders")
    async def price(delivery: Delivery) -> None:
        delivery.publish(*arguments)  # type: ignore[arg-type]

    trial = await worker.test(b"")
    assert isinstance(trial.error, ConfigError)
    assert message in str(trial.error)


@pytest.mark.parametrize("is_async", [True, False])
async def test_idempotent_calls_cannot_publish_but_their_results_can_be_published(is_async: bool) -> None:
    """A repeated call returns its result without running, so nothing would be published."""
    worker = Worker(group="g")
    runs: list[int] = []
    store = MemoryStore()

    if is_async:

        @worker.handler("orders")
        @idempotent(store)
        async def publish(delivery: Delivery) -> None:
            runs.append(1)
            delivery.publish("prices", b"1")
    else:

        @worker.handler("orders")
        @idempotent(store)
        def publish_plainly(delivery: Delivery) -> None:
            runs.append(1)
            delivery.publish("prices", b"1")

    for _ in range(2):
        trial = await worker.test(b"")
        assert "let it return the result" in str(trial.error)
    assert len(runs) == 2, "the first call isn't remembered as done"

    @idempotent(store, key=lambda value: value)
    async def charge(value: bytes) -> str:
        runs.append(1)
        return f"receipt for {value.decode()}"

    @worker.handler("payments")
    async def pay(value: bytes, delivery: Delivery) -> None:
        delivery.publish("receipts", (await charge(value)).encode())

    for _ in range(2):
        trial = await worker.test(SampleRecord(topic="payments", value=b"7"))
        assert [result.value for result in trial.results] == [b"receipt for 7"]
    assert len(runs) == 3


SETTLE = {
    "release": lambda delivery: delivery.release(),
    "delay": lambda delivery: delivery.release(delay=0.01),
    "reject": lambda delivery: delivery.reject("not now"),
}


@pytest.mark.parametrize("how", SETTLE)
@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("is_inner", [True, False])
async def test_settling_by_hand_is_not_the_result_of_an_idempotent_call(
    how: str, is_async: bool, is_inner: bool
) -> None:
    """Otherwise the next attempt would return the stored None, and the record would be accepted: never processed."""
    worker = Worker(group="g", dead_letters="dead")
    runs: list[int] = []
    store = MemoryStore()

    def decide(delivery: Delivery) -> None:
        runs.append(1)
        if len(runs) == 1:
            SETTLE[how](delivery)

    if is_async:

        @idempotent(store, name="inner")
        async def inner(delivery: Delivery) -> None:
            decide(delivery)

        @worker.handler("orders")
        @idempotent(store, name="outer")
        async def ship(delivery: Delivery) -> None:
            if is_inner:
                await inner(delivery)
            else:
                decide(delivery)
    else:

        @idempotent(store, name="inner")
        def inner_plain(delivery: Delivery) -> None:
            decide(delivery)

        @worker.handler("orders")
        @idempotent(store, name="outer")
        def ship_plainly(delivery: Delivery) -> None:
            if is_inner:
                inner_plain(delivery)
            else:
                decide(delivery)

    first = await worker.test(b"")
    assert first.outcome == {"release": "released", "delay": "held", "reject": "dead letter"}[how]
    for _ in range(2):
        assert (await worker.test(b"")).outcome == "accepted"
    assert len(runs) == 2, "the second attempt runs, the third returns the result of that"


async def test_accepting_by_hand_counts_as_done() -> None:
    worker = Worker(group="g")
    runs: list[int] = []

    @worker.handler("orders")
    @idempotent(MemoryStore())
    async def ship(delivery: Delivery) -> None:
        runs.append(1)
        delivery.accept()

    for _ in range(2):
        assert (await worker.test(b"")).outcome == "accepted"
    assert len(runs) == 1
