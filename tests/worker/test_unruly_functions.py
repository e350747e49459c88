"""Users' functions that resist their cancellation: one record's function harms no other record, and hides nothing."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from kshare import ShareConsumer
from kshare.protocol.messages import ProduceRequest
from kshare.testing import Broker
from kshare.worker import Delivery, Retry, RetryTopics, Worker
from kshare.worker.watch.observer import RecordProcessed, WorkerObserver
from tests.helpers.running_worker import from_the_start, running, until

pytestmark = [pytest.mark.anyio, pytest.mark.lengthy]


class OwnBase(BaseException):
    pass


class Silent(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    from_the_start(kshare_broker)
    for topic in ("t", "dead"):
        kshare_broker.create_topic(topic)
    return kshare_broker


async def _in_a_group() -> None:
    async def clean_up() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("cleaning up")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clean_up)


def _raising(error: Callable[[], BaseException]) -> Callable[[], Any]:
    async def hang() -> None:
        try:
            await anyio.sleep_forever()
        except BaseException:
            raise error() from None

    return hang


@pytest.mark.parametrize("how", ["time limit", "drain", "second stop"])
@pytest.mark.parametrize(
    ("hang", "takes"),
    [
        (_in_a_group, "payload"),
        (_in_a_group, "delivery"),
        (_in_a_group, "batch"),
        (_raising(lambda: SystemExit(1)), "payload"),
        (_raising(lambda: OwnBase()), "batch"),
        (_raising(GeneratorExit), "delivery"),
        (_raising(lambda: BaseExceptionGroup("several", [OwnBase()])), "payload"),
    ],
    ids=[
        "group",
        "group, delivery",
        "group, batch",
        "SystemExit",
        "own",
        "GeneratorExit",
        "BaseExceptionGroup",
    ],
)
async def test_what_a_function_raises_when_it_is_cancelled_ends_nobody_else(
    broker: Broker, hang: Callable[[], Any], how: str, takes: str
) -> None:
    worker = Worker(
        broker.bootstrap,
        group="g",
        time_limit=0.2 if how == "time limit" else 60.0,
        drain_timeout=60.0 if how == "second stop" else 0.2,
        dead_letters="dead",
        breaker=None,
    )
    done: list[bytes] = []
    began: list[bytes] = []

    async def process(value: bytes) -> None:
        began.append(value)
        if value == b"bad":
            await hang()
        done.append(value)

    async def process_one(delivery: Delivery) -> None:
        await process(delivery.value or b"")

    async def process_batch(values: list[bytes]) -> None:
        for value in values:
            await process(value)

    if takes == "batch":
        worker.batch_handler("t", batch_size=1)(process_batch)
    else:
        worker.handler("t")(process if takes == "payload" else process_one)
    broker.produce("t", [b"bad", b"good"])
    async with running(worker):
        await until(lambda: b"good" in done and b"bad" in began)
        if how == "time limit":
            await until(lambda: len(broker.records("dead")) == 1)
            broker.produce("t", [b"better"])
            await until(lambda: b"better" in done)
        elif how == "second stop":
            worker.stop()
            await anyio.sleep(0.05)


@pytest.mark.parametrize("how", ["limit", "drain", "second stop"])
async def test_a_dead_letters_function_that_swallows_its_cancellation_has_kept_nothing(
    broker: Broker, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kshare.worker.settle.copies._KEEP_LIMIT_S", 0.2 if how == "limit" else 60.0)
    monkeypatch.setattr("kshare.worker.run.draining.LAST_WRITES_S", 0.2)
    calls: list[bytes | None] = []

    async def keep(delivery: Delivery, reason: str) -> None:
        calls.append(delivery.value)
        try:
            await anyio.sleep_forever()
        except BaseException:  # as a bare except does
            return

    worker = Worker(
        broker.bootstrap,
        group="g",
        retry=Retry(attempts=1),
        dead_letters=keep,
        drain_timeout=0.1 if how == "drain" else 60.0,
    )

    @worker.handler("t")
    async def fail(value: bytes) -> None:
        raise ValueError

    broker.produce("t", [b"bad"])
    async with running(worker):
        await until(lambda: len(calls) >= (2 if how == "limit" else 1))
        runner = worker.runners[0]
        if how != "drain":
            worker.stop()
            worker.stop()
    assert runner.counts.dead == 0
    async with ShareConsumer(broker.bootstrap, group="g", topics=["t"]) as consumer:
        with anyio.fail_after(30):
            async for record in consumer:
                assert record.value == b"bad"
                break


@pytest.mark.parametrize("how", ["time limit", "drain", "second stop"])
async def test_records_of_functions_that_do_not_end_are_given_back(
    broker: Broker, how: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kshare.worker.run.slot_watch._STUCK_S", 0.3)
    monkeypatch.setattr("kshare.worker.run.draining._CANCEL_GRACE_S", 0.3)
    worker = Worker(
        broker.bootstrap,
        group="g",
        time_limit=0.2 if how == "time limit" else 60.0,
        drain_timeout=60.0 if how == "second stop" else 0.1,
        breaker=None,
    )
    goes_on = True
    calls: list[Delivery] = []

    @worker.handler("t")
    async def never_ends(delivery: Delivery) -> None:
        calls.append(delivery)
        while goes_on:
            try:
                await anyio.sleep(0.01)
            except BaseException:
                continue

    broker.produce("t", [b"1"])
    values: list[bytes | None] = []
    async with running(worker):
        await until(lambda: bool(calls))
        if how == "time limit":
            worker.pause("t", 60)  # so that another member gets it
        else:
            worker.stop()
        if how == "second stop":
            await anyio.sleep(0.1)
            worker.stop()
        async with ShareConsumer(broker.bootstrap, group="g", topics=["t"]) as consumer:
            with anyio.fail_after(30):
                async for record in consumer:
                    values.append(record.value)
                    break
        goes_on = False
    assert values == [b"1"]
    if how != "second stop":
        [line] = [
            message for message in caplog.messages if "continue although they were cancelled" in message
        ]
        assert "t[0]@0" in line


async def test_a_copy_that_takes_long_is_not_taken_for_a_function_that_goes_on(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kshare.worker.run.slot_watch._STUCK_S", 0.2)
    broker.produce("t", [b"1"])
    broker.faults.add(ProduceRequest, times=None, before_ms=1500)
    worker = Worker(
        broker.bootstrap,
        group="g",
        time_limit=0.2,
        breaker=None,
        retry=Retry(delay=0.05),
        retry_topics=RetryTopics(tiers=(600.0,)),
    )

    @worker.handler("t")
    async def hang(delivery: Delivery) -> None:
        if delivery.attempt == 1:
            raise ValueError
        await anyio.sleep_forever()

    async with running(worker):
        await until(lambda: worker.runners[0].counts.moved == 1)
    assert len(broker.records("t.retry.10m")) == 1
    assert not any("although they were cancelled" in message for message in caplog.messages)


@pytest.mark.parametrize("how", ["time limit", "drain"])
async def test_a_function_that_ends_after_its_record_was_given_back_settles_nothing(
    broker: Broker, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record was copied twice."""
    monkeypatch.setattr("kshare.worker.run.slot_watch._STUCK_S", 0.2)
    monkeypatch.setattr("kshare.worker.run.draining._CANCEL_GRACE_S", 0.2)
    broker.produce("t", [b"1"])
    broker.faults.add(ProduceRequest, times=None, before_ms=800)
    worker = Worker(
        broker.bootstrap,
        group="g",
        time_limit=0.2 if how == "time limit" else 60.0,
        drain_timeout=0.1,
        breaker=None,
        retry=Retry(delay=0.05),
        retry_topics=RetryTopics(tiers=(600.0,)),
    )
    began = anyio.Event()

    @worker.handler("t")
    async def goes_on(delivery: Delivery) -> None:
        if delivery.attempt == 1:
            raise ValueError
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.8)

    async with running(worker):
        await began.wait()
        if how == "time limit":
            await until(lambda: worker.runners[0].counts.moved == 1)
            await anyio.sleep(1.0)
        runner = worker.runners[0]
    assert runner.counts.moved == 1
    assert len(broker.records("t.retry.10m")) == 1


async def test_a_key_waits_for_its_function_although_its_record_was_given_back(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kshare.worker.run.slot_watch._STUCK_S", 0.1)
    worker = Worker(broker.bootstrap, group="g", time_limit=0.2, breaker=None, concurrency=8)
    goes_on = True
    running_now: set[bytes | None] = set()
    overlaps: list[set[bytes | None]] = []
    done: list[bytes | None] = []

    @worker.handler("t", order="key")
    async def process(delivery: Delivery) -> None:
        running_now.add(delivery.value)
        if len(running_now) > 1:
            overlaps.append(set(running_now))
        while goes_on and delivery.value == b"1" and delivery.delivery_count == 1:
            try:
                await anyio.sleep(0.01)
            except BaseException:
                continue
        running_now.discard(delivery.value)
        done.append(delivery.value)

    for value in (b"1", b"2", b"3"):
        broker.produce("t", [value], key=b"k")
    async with running(worker):
        await until(lambda: worker.runners[0].counts.released >= 1)
        await anyio.sleep(0.5)
        goes_on = False
        await until(lambda: {b"1", b"2", b"3"} <= {*done})
    assert overlaps == []


async def test_records_that_are_kept_are_not_given_back_while_their_function_cleans_up(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All records of the batch became dead letters."""
    monkeypatch.setattr("kshare.worker.run.slot_watch._STUCK_S", 0.1)
    worker = Worker(broker.bootstrap, group="g", time_limit=0.3, breaker=None, dead_letters="dead")
    done: list[bytes] = []

    @worker.batch_handler("t", batch_size=5, batch_wait=0.3)
    async def process(values: list[bytes]) -> None:
        if b"bad" in values:
            try:
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(0.6)
        done.extend(values)

    broker.produce("t", [b"bad", b"1", b"2", b"3", b"4"])
    async with running(worker):
        await until(lambda: len(done) == 4 and len(broker.records("dead")) == 1)
    assert [record.value for record in broker.records("dead")] == [b"bad"]


PROGRAM = """
import sys
import anyio
import kshare.worker.signals as signals
from kshare.worker import Worker

signals._PATIENCE_S = 0.5
worker = Worker(sys.argv[1], group="g", drain_timeout=0.1)

@worker.handler("t")
async def never_ends(value: bytes) -> None:
    print("begins", flush=True)
    while True:
        try:
            await anyio.sleep(1)
        except BaseException:
            pass

worker.run(backend=sys.argv[2])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows can't send itself such signals")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_another_signal_ends_a_process_whose_functions_do_not_end(broker: Broker, backend: str) -> None:
    broker.produce("t", [b"1"])
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, broker.bootstrap, backend],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        deadline = time.monotonic() + 60
        signals = 0
        while process.poll() is None and time.monotonic() < deadline:
            process.send_signal(signal.SIGTERM)
            signals += 1
            time.sleep(0.3)
        process.kill()
        _, told = process.communicate()
    assert process.returncode == -signal.SIGTERM
    assert 3 <= signals <= 10
    assert "ended by another signal, because functions continue although they were cancelled" in told


async def test_what_is_lost_by_a_second_stop_is_named(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """In its last delivery: one is running, one is held."""
    broker.set_group_config("g", {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "2"})
    broker.produce("t", [b"running", b"held"])
    async with ShareConsumer(
        broker.bootstrap, group="g", topics=["t"], acknowledgement="explicit"
    ) as consumer:
        with anyio.fail_after(30):
            batch = await consumer.next_batch()
            consumer.pause(release=True)
            batch.release()
    worker = Worker(broker.bootstrap, group="g", retry=Retry(delay=60.0), hold_up_to=90.0, breaker=None)
    began: list[bytes] = []

    @worker.handler("t")
    async def process(value: bytes) -> None:
        began.append(value)
        if value == b"held":
            raise ValueError
        await anyio.sleep_forever()

    async with running(worker):
        [runner] = worker.runners
        await until(lambda: len(began) == 2 and runner.queue.held == 1)
        worker.stop()
        await anyio.sleep(0.0)
        worker.stop()
    assert runner.counts.lost == 2
    lines = [
        record
        for record in caplog.records
        if "after their last delivery; the broker archives them" in record.message
    ]
    assert {line.levelno for line in lines} == {logging.ERROR}
    assert (
        sum("2 records" in line.message or "1 record " in line.message for line in lines) == len(lines) >= 1
    )


async def test_names_and_messages_of_exceptions_are_bounded(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    kind = type("E\n\x1b[31m" + "x" * 100_000, (Exception,), {})
    worker = Worker(broker.bootstrap, group="g", retry=Retry(attempts=1), dead_letters="dead")

    @worker.handler("t")
    async def fail(value: bytes) -> None:
        raise kind if value == b"named" else Silent

    broker.produce("t", [b"named", b"silent"])
    async with running(worker):
        await until(lambda: len(broker.records("dead")) == 2)
    for letter in broker.records("dead"):
        told = [value or b"" for name, value in letter.headers if name.startswith("__dlq.errors.")]
        assert max(map(len, told)) < 1_200
        assert not any(b"\n" in line or b"\x1b" in line for line in told)
    assert max(map(len, caplog.messages)) < 2_000


async def test_an_observer_that_wants_to_end_the_program_is_logged(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    class Leaving(WorkerObserver):
        def on_settled(self, settled: RecordProcessed) -> None:
            raise SystemExit(1)

    done: list[bytes] = []
    worker = Worker(broker.bootstrap, group="g")
    worker.observe(Leaving())

    @worker.handler("t")
    async def process(value: bytes) -> None:
        done.append(value)
        if len(done) == 1:
            raise ValueError

    broker.produce("t", [b"1", b"2"])
    async with running(worker):
        await until(lambda: b"2" in done)
    assert any("observer" in message and "raised" in message for message in caplog.messages)


async def test_all_shutdown_hooks_are_called_if_one_wants_to_end_the_program(broker: Broker) -> None:
    called: list[str] = []
    worker = Worker(broker.bootstrap, group="g")

    @worker.handler("t")
    async def process(value: bytes) -> None: ...

    @worker.on_shutdown
    def first() -> None:
        called.append("first")

    @worker.on_shutdown
    def second() -> None:
        called.append("second")
        raise SystemExit(3)

    async def stop() -> None:
        await until(lambda: worker.health().state == "running")
        worker.stop()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop)
        with pytest.raises(SystemExit):
            await worker.serve()
    assert called == ["second", "first"]
