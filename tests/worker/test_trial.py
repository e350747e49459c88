"""`worker.test`: runs a handler without brokers, and says what becomes of the record, for every outcome."""

from __future__ import annotations

import re
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from kshare import ConfigError
from kshare.errors import InProgress
from kshare.testing import run_worker
from kshare.worker import (
    Breaker,
    Delivery,
    PayloadError,
    PublishedRecord,
    RecordOutcome,
    Retry,
    RetryTopics,
    SampleRecord,
    Worker,
)

pytestmark = pytest.mark.anyio


@dataclass
class Order:
    number: int


def worker_with(function: Callable[..., object], **options: object) -> Worker:
    worker = Worker(group="shippers")
    worker.handler("orders", **options)(function)  # type: ignore[arg-type]
    return worker


async def fail(order: Order) -> None:
    raise ValueError("no stock")


async def pass_by(order: Order) -> None: ...


async def test_accepted() -> None:
    got: list[object] = []

    async def ship(order: Order, delivery: Delivery) -> None:
        got.extend([order, delivery.topic, delivery.attempt, delivery.key, delivery.headers])

    trial = await worker_with(ship).test(
        SampleRecord(value=b'{"number": 7}', key=b"k", headers=[("trace", b"1")])
    )
    assert got == [Order(7), "orders", 1, b"k", [("trace", b"1")]]
    assert (trial.outcome, trial.error, trial.delay, trial.attempts) == (
        RecordOutcome.ACCEPTED,
        None,
        None,
        1,
    )
    assert (trial.published, trial.topic, trial.is_timed_out) == ([], None, False)
    assert trial.outcome == "accepted"


async def test_values_may_be_text() -> None:
    assert (await worker_with(pass_by).test('{"number": 7}')).outcome == "accepted"


async def test_held_until_the_next_attempt() -> None:
    trial = await worker_with(fail, retry=Retry(delay=5)).test(b'{"number": 7}')
    assert (trial.outcome, trial.delay, trial.attempts) == ("held", 5.0, 1)
    assert str(trial.error) == "no stock"


async def test_later_attempts() -> None:
    worker = worker_with(fail, retry=Retry(attempts=3, delay=[5, 60]))
    for attempt, expected in ((1, ("held", 5.0)), (2, ("held", 60.0)), (3, ("rejected", None))):
        trial = await worker.test(SampleRecord(value=b'{"number": 7}', attempt=attempt))
        assert (trial.outcome, trial.delay) == expected
        assert trial.attempts == attempt


async def test_moved_to_a_retry_topic() -> None:
    worker = worker_with(fail, retry=Retry(delay=90), retry_topics=RetryTopics(tiers=(60, 600)))
    trial = await worker.test(
        SampleRecord(value=b'{"number": 7}', key=b"k", headers=[("trace", b"1")], offset=12)
    )
    assert (trial.outcome, trial.delay, trial.attempts, trial.topic) == ("moved", 90.0, 1, "orders.retry.10m")
    [copy] = trial.published
    assert (copy.key, copy.value, copy.headers[0]) == (b"k", b'{"number": 7}', ("trace", b"1"))
    assert dict(copy.headers)["__kshare.retry.offset"] == b"12"


async def test_dead_letter() -> None:
    worker = worker_with(fail, retry=Retry(attempts=1), dead_letters="dead")
    trial = await worker.test(SampleRecord(value=b'{"number": 7}', key=b"k"))
    assert (trial.outcome, trial.topic, trial.delay, trial.attempts) == ("dead letter", "dead", None, 1)
    headers = dict(trial.published[0].headers)
    assert headers["__dlq.errors.message"] == b"ValueError in attempt 1: no stock"
    assert headers["__dlq.errors.exception"] == b"ValueError"


async def test_dead_letter_of_an_error_whose_message_is_a_number() -> None:
    async def fails(value: bytes) -> None:
        raise KeyError(1)

    worker = Worker(group="g", retry=Retry(attempts=1), dead_letters="dead")
    worker.handler("orders")(fails)
    trial = await worker.test(SampleRecord(value=b"7", topic="orders"))
    assert dict(trial.published[0].headers)["__dlq.errors.message"] == b"KeyError in attempt 1: 1"


async def test_dead_letter_that_a_function_keeps() -> None:
    kept: list[tuple[bytes | None, str]] = []

    async def keep(delivery: Delivery, message: str) -> None:
        kept.append((delivery.value, message))

    trial = await worker_with(fail, retry=Retry(attempts=1), dead_letters=keep).test(b'{"number": 7}')
    assert (trial.outcome, trial.topic) == ("dead letter", None)
    assert kept == [(b'{"number": 7}', "ValueError in attempt 1: no stock")]


async def test_value_that_cannot_be_converted() -> None:
    trial = await worker_with(pass_by, dead_letters="dead").test(b"7")
    assert (trial.outcome, type(trial.error)) == ("dead letter", PayloadError)


async def test_rejected() -> None:
    async def refuse(delivery: Delivery) -> None:
        delivery.reject("no such customer")

    assert (await worker_with(refuse).test(b"")).outcome == "rejected"
    trial = await worker_with(refuse, dead_letters="dead").test(b"")
    assert (trial.outcome, trial.error) == ("dead letter", None)
    assert dict(trial.published[0].headers)["__dlq.errors.message"] == b"no such customer"


async def test_released() -> None:
    async def release(delivery: Delivery) -> None:
        delivery.release()

    async def delay(delivery: Delivery) -> None:
        delivery.release(delay=2.5)

    trial = await worker_with(release).test(b"")
    assert (trial.outcome, trial.delay) == ("released", None)
    trial = await worker_with(delay).test(b"")
    assert (trial.outcome, trial.delay, trial.attempts) == ("held", 2.5, 0)


async def test_filtered() -> None:
    async def ship(value: bytes) -> None:
        raise AssertionError

    worker = worker_with(ship, only=lambda delivery: delivery.key == b"mine")
    trial = await worker.test(SampleRecord(key=b"other"))
    assert (trial.outcome, trial.error, trial.attempts) == ("filtered", None, 0)
    assert isinstance((await worker.test(SampleRecord(key=b"mine"))).error, AssertionError)


async def test_accepted_though_it_raised_afterwards() -> None:
    async def ship(delivery: Delivery) -> None:
        delivery.accept()
        raise ValueError

    trial = await worker_with(ship).test(b"")
    assert (trial.outcome, type(trial.error)) == ("accepted", ValueError)


async def test_time_limit_cancels_and_releases() -> None:
    async def hang(value: bytes) -> None:
        await anyio.sleep_forever()

    with anyio.fail_after(30):
        trial = await worker_with(hang, time_limit=0.01).test(b"")
    assert (trial.outcome, trial.is_timed_out, trial.error) == ("released", True, None)


async def test_time_limit_of_the_last_delivery_moves_the_record() -> None:
    """Released once more, it would be archived."""

    async def hang(value: bytes) -> None:
        await anyio.sleep_forever()

    worker = worker_with(hang, time_limit=0.01, dead_letters="dead", retry=Retry(attempts=9))
    with anyio.fail_after(30):
        trial = await worker.test(SampleRecord(delivery_count=3))
    assert (trial.outcome, trial.is_timed_out) == ("released", True)
    trial = await worker.test(SampleRecord(delivery_count=4))
    assert (trial.outcome, trial.is_timed_out) == ("dead letter", False), "it isn't even tried"


async def test_old_records_are_not_retried() -> None:
    worker = worker_with(fail, retry=Retry(delay=10, max_age=3600))
    assert (await worker.test(b'{"number": 7}')).outcome == "held"
    assert (await worker.test(SampleRecord(value=b'{"number": 7}', timestamp=1))).outcome == "rejected"


async def test_idempotent_handler_that_waits_for_another_member_is_held() -> None:
    async def ship(value: bytes) -> None:
        raise InProgress("key", 3.0)

    trial = await worker_with(ship).test(b"")
    assert (trial.outcome, trial.delay, trial.attempts) == ("held", 3.0, 0)


async def test_plain_functions_run_in_a_thread() -> None:
    threads: list[int] = []

    def ship(value: str, delivery: Delivery) -> None:
        threads.append(threading.get_ident())
        delivery.accept()

    with anyio.fail_after(30):
        trial = await worker_with(ship).test(b"x")
    assert trial.outcome == "accepted"
    assert threads != [threading.get_ident()]


async def test_middleware_and_error_reports_run() -> None:
    steps: list[str] = []
    worker = worker_with(fail, retry=Retry(delay=1))

    @worker.middleware
    async def around(delivery: Delivery, go_on: Callable[[], Awaitable[None]]) -> None:
        steps.append("before")
        await go_on()

    @worker.on_error
    def report(delivery: Delivery, error: BaseException) -> None:
        steps.append(f"{delivery!r}: {error}")

    await worker.test(b'{"number": 7}')
    assert steps == ["before", "Delivery(orders[0]@0, attempt 1): no stock"]


async def test_breaker_never_changes_the_result() -> None:
    worker = worker_with(fail, retry=Retry(delay=1), breaker=Breaker(min_failures=1))
    for _ in range(3):
        trial = await worker.test(b'{"number": 7}')
        assert (trial.outcome, trial.attempts) == ("held", 1)


async def test_batches() -> None:
    got: list[object] = []
    worker = Worker(group="g", dead_letters="dead", only=lambda delivery: delivery.key != b"skip")

    @worker.batch_handler("orders")
    async def ship(orders: list[Order], deliveries: list[Delivery]) -> None:
        got.extend(orders)
        deliveries[0].release(delay=3)

    trials = await worker.test_batch(
        [
            b'{"number": 1}',
            b"x",
            SampleRecord(key=b"skip"),
            '{"number": 2}',
            SampleRecord(value=b"y", offset=40),
        ]
    )
    assert got == [Order(1), Order(2)]
    assert [trial.outcome for trial in trials] == [
        "held",
        "dead letter",
        "filtered",
        "accepted",
        "dead letter",
    ]
    assert [dict(trial.published[0].headers)["__dlq.errors.offset"] for trial in (trials[1], trials[4])] == [
        b"1",
        b"40",
    ]
    assert [len(trial.published) for trial in trials] == [0, 1, 0, 0, 1]


async def test_failed_batch() -> None:
    worker = Worker(group="g", retry=Retry(delay=4))

    @worker.batch_handler("orders")
    async def ship(values: list[bytes]) -> None:
        raise ValueError

    trials = await worker.test_batch([b"1", b"2"])
    assert [(trial.outcome, trial.delay, type(trial.error)) for trial in trials] == [
        ("held", 4.0, ValueError)
    ] * 2


async def test_handler_is_found_by_topic_or_name() -> None:
    got: list[str] = []
    worker = Worker(group="g")

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        got.append("ship")

    @worker.handler(re.compile("parcels-.*"))
    async def pack(value: bytes, delivery: Delivery) -> None:
        got.append(delivery.topic)

    @worker.batch_handler("letters")
    async def stamp(values: list[bytes]) -> None: ...

    await worker.test(SampleRecord(topic="orders"))
    await worker.test(b"", "ship")
    await worker.test(SampleRecord(topic="parcels-7"))
    await worker.test_batch([b""])
    assert got == ["ship", "ship", "parcels-7"]
    with pytest.raises(
        ConfigError,
        match=r"there are several: give the topic .* or the name of a handler. There are: ship, pack",
    ):
        await worker.test(b"")
    with pytest.raises(ConfigError, match="there is no handler for topic cards"):
        await worker.test(SampleRecord(topic="cards"))
    with pytest.raises(ConfigError, match=r"there is no batch handler for the name sip: .* There are: stamp"):
        await worker.test_batch([b""], "sip")
    with pytest.raises(ConfigError, match="ship is a handler of single records: call test"):
        await worker.test_batch([b""], "ship")
    with pytest.raises(ConfigError, match="stamp is a batch handler: call test_batch"):
        await worker.test(b"", "stamp")
    with pytest.raises(ConfigError, match="handler pack has no topics, only patterns"):
        await worker.test(b"", "pack")
    with pytest.raises(ConfigError, match="a batch needs at least one record"):
        await worker.test_batch([])


async def test_ctrl_c_is_not_an_outcome() -> None:
    async def leave(value: bytes) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await worker_with(leave).test(b"")


async def test_system_exit_is_a_failure() -> None:
    async def leave(value: bytes) -> None:
        raise SystemExit(3)

    trial = await worker_with(leave).test(b"")
    assert str(trial.error) == "the handler raised SystemExit"


OUTCOMES: list[tuple[str, dict[str, Any]]] = [
    ("good", {}),
    ("bad", {"retry": Retry(delay=600)}),
    ("bad", {"retry": Retry(delay=600), "retry_topics": True}),
    ("bad", {"retry": Retry(attempts=1)}),
    ("bad", {"retry": Retry(attempts=1), "dead_letters": "dead"}),
    ("good", {"only": lambda delivery: False}),
    ("unwanted", {}),
    ("unwanted", {"dead_letters": "dead"}),
    ("later", {}),
    ("hang", {"time_limit": 0.2}),
]
COUNTED = {"accepted": "done", "dead letter": "dead", "rejected": "dead"}


@pytest.mark.lengthy
@pytest.mark.parametrize(("value", "options"), OUTCOMES)
async def test_trials_agree_with_running_workers(value: str, options: dict[str, Any]) -> None:
    async def ship(text: str, delivery: Delivery) -> None:
        match text:
            case "bad":
                raise ValueError
            case "unwanted":
                delivery.reject("unwanted")
            case "later":
                delivery.release(delay=600)
            case "hang":
                await anyio.sleep_forever()

    worker = worker_with(ship, **options)
    trial = await worker.test(value)
    with run_worker(worker) as running:
        running.produce("orders", value.encode())
        field = COUNTED.get(trial.outcome, trial.outcome)
        running.wait_until(lambda: getattr(running.counts["ship"], field))
        published = [
            record
            for topic in {record.topic for record in trial.published}
            for record in running.records(topic)
        ]
    assert [(record.key, record.value, [name for name, _ in record.headers]) for record in published] == [
        (record.key, record.value, [name for name, _ in record.headers]) for record in trial.published
    ]


def test_published_records_are_values() -> None:
    one = PublishedRecord(topic="t", key=None, value=b"", headers=[])
    assert one == PublishedRecord(topic="t", key=None, value=b"", headers=[])


def test_without_an_event_loop() -> None:
    worker = worker_with(pass_by)
    assert anyio.run(worker.test, b'{"number": 7}').outcome == "accepted"
    assert anyio.run(worker.test, b'{"number": 7}', "pass_by", backend="trio").outcome == "accepted"
