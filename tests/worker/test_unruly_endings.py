"""What waits behind functions that don't end: it is tried before it is given back too often, and by whoever is idle."""

from __future__ import annotations

import anyio
import pytest
from anyio.lowlevel import checkpoint

from kshare import ShareConsumer
from kshare.testing import Broker
from kshare.worker import Delivery, RetryTopics, Worker
from tests.helpers.running_worker import from_the_start, running, until

pytestmark = [pytest.mark.anyio, pytest.mark.lengthy]


LONGEST_S = 25.0
"""For tests that fail."""


class GoesOn:
    def __init__(self) -> None:
        self.is_over = False
        self._until = anyio.current_time() + LONGEST_S

    async def until_over(self) -> None:
        """As a function that catches its cancellation and goes on."""
        while not self.is_over and anyio.current_time() < self._until:
            try:
                await anyio.sleep(0.01)
            except BaseException:
                continue


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    from_the_start(kshare_broker)
    kshare_broker.create_topic("t")
    return kshare_broker


@pytest.mark.parametrize("behind", ["its key", "the only slot", "the only slot, for a batch"])
async def test_records_are_tried_that_must_not_be_given_back(
    broker: Broker, behind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were archived, or became dead letters, after a few restarts, and nobody had tried them."""
    monkeypatch.setattr(
        "kshare.worker.handlers.routes.Route.surplus", 20
    )  # else it depends on how fast the handler was
    broker.set_group_config("g", {"share.delivery.count.limit": "2"})
    worker = Worker(broker.bootstrap, group="g", drain_timeout=2.0, breaker=None)
    done: set[bytes | None] = set()
    began = anyio.Event()

    if behind == "the only slot, for a batch":

        @worker.batch_handler("t", concurrency=1, batch_size=1)
        async def process_all(deliveries: list[Delivery]) -> None:
            await process(deliveries[0])

    else:
        options = {"order": "key", "concurrency": 4} if behind == "its key" else {"concurrency": 1}

        @worker.handler("t", **options)
        async def process_one(delivery: Delivery) -> None:
            await process(delivery)

    async def process(delivery: Delivery) -> None:
        if delivery.value == b"0":
            began.set()
            await anyio.sleep_forever()
        done.add(delivery.value)

    values = [*(b"quick %d" % number for number in range(200)), *(b"%d" % number for number in range(20))]
    broker.produce("t", values, key=b"k")
    async with running(worker):
        await began.wait()
        runner = worker.runners[0]
        await until(lambda: runner.health().ready + runner.queue.unavailable > 0)
        await anyio.sleep(0.5)
        waiting = runner.health().ready + runner.queue.unavailable
    assert len(done) == 200 + waiting
    assert any("cancelled before drain_timeout" in message for message in caplog.messages)


async def test_calls_are_not_cut_short_for_records_that_may_be_given_back(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(broker.bootstrap, group="g", drain_timeout=1.5, breaker=None)
    done: list[bytes | None] = []

    @worker.handler("t", order="key", concurrency=4)
    async def process(delivery: Delivery) -> None:
        if not done:
            await anyio.sleep(1.2)
        done.append(delivery.value)

    for number in range(5):
        broker.produce("t", [b"%d" % number], key=b"k")
    async with running(worker):
        await until(lambda: worker.runners[0].running > 0)
    assert b"0" in done
    assert not any("cancelled before drain_timeout" in message for message in caplog.messages)


async def test_other_members_get_what_comes_while_all_slots_are_stuck(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kshare.worker.run.slot_watch._STUCK_S", 0.2)
    worker = Worker(broker.bootstrap, group="g", breaker=None, time_limit=0.3, concurrency=1)
    goes_on = GoesOn()
    began: list[bytes | None] = []

    @worker.handler("t")
    async def process(delivery: Delivery) -> None:
        began.append(delivery.value)
        if delivery.value == b"bad":
            await goes_on.until_over()

    broker.produce("t", [b"bad"])
    async with running(worker):
        await until(lambda: bool(began))
        broker.produce("t", [b"%d" % number for number in range(100)])
        await until(lambda: worker.runners[0].counts.released > 0)
        await anyio.sleep(0.3)  # it could acquire that again
        found: set[bytes | None] = set()
        async with ShareConsumer(broker.bootstrap, group="g", topics=["t"]) as consumer:
            with anyio.fail_after(30):
                async for record in consumer:
                    found.add(record.value)
                    if len(found) == 101:
                        break
        goes_on.is_over = True
        await until(lambda: worker.runners[0].running == 0)
        broker.produce("t", [b"again"])
        await until(lambda: b"again" in began)


@pytest.mark.parametrize("how", ["it is delayed", "its dead letter is kept later"])
async def test_a_key_waits_for_a_function_that_goes_on_whatever_becomes_of_its_record(
    broker: Broker, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kshare.worker.run.slot_watch._STUCK_S", 0.1)
    calls = 0

    async def keep(delivery: Delivery, reason: str) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise OSError

    worker = Worker(
        broker.bootstrap, group="g", time_limit=0.2, breaker=None, concurrency=8, dead_letters=keep
    )
    goes_on = GoesOn()
    tries = 0
    began: list[bytes | None] = []

    @worker.handler("t", order="key")
    async def process(delivery: Delivery) -> None:
        nonlocal tries
        began.append(delivery.value)
        if delivery.value != b"1":
            return
        tries += 1
        if tries > 1:
            return
        if how == "it is delayed":
            delivery.release(delay=0.1)
        else:
            delivery.reject("no")
        await goes_on.until_over()

    for value in (b"1", b"2", b"3"):
        broker.produce("t", [value], key=b"k")
    async with running(worker):
        await until(lambda: worker.runners[0].queue.held == 1 or calls == 2)
        await anyio.sleep(0.5)
        assert began == [b"1"]
        goes_on.is_over = True
        await until(lambda: b"3" in began)


async def test_a_run_is_not_moved_that_was_given_up(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of it was written, and processed again."""
    monkeypatch.setattr("kshare.worker.run.slot_watch._STUCK_S", 0.1)
    worker = Worker(
        broker.bootstrap,
        group="g",
        time_limit=0.3,
        breaker=None,
        move_runs=True,
        max_pinned=0.01,
        concurrency=4,
        retry_topics=RetryTopics(tiers=(60.0,)),
    )
    goes_on = GoesOn()
    began = 0

    @worker.handler("t")
    async def process(value: bytes, delivery: Delivery) -> None:
        nonlocal began
        began += value == b"slow"
        is_first = value == b"slow" and began == 1
        if is_first:
            await goes_on.until_over()

    broker.produce("t", [b"slow"])
    async with running(worker):
        runner = worker.runners[0]
        await until(lambda: began == 2)  # it was given back
        for _ in range(20):
            broker.produce("t", [b"%d" % number for number in range(20)])
            await anyio.sleep(0.05)
        await until(lambda: runner.counts.done >= 401)
        await anyio.sleep(0.3)
        goes_on.is_over = True
    assert runner.counts.moved == 0
    assert broker.records("t.retry.1m") == []


async def test_a_worker_that_has_ended_may_be_paused(broker: Broker) -> None:
    """By another of its threads, for instance, whose calls end a little later."""
    worker = Worker(broker.bootstrap, group="g", retry_topics=RetryTopics(tiers=(60.0,)))

    @worker.handler("t")
    async def process(value: bytes) -> None: ...

    async with running(worker):
        [runner] = worker.runners
    runner.pause(30.0)
    runner.pause(0.0)
    runner.subscribe(runner.route)


@pytest.mark.parametrize("pause", range(3))
async def test_two_stops_close_together(broker: Broker, pause: int) -> None:
    for _ in range(5):
        worker = Worker(broker.bootstrap, group="g", retry_topics=RetryTopics(tiers=(60.0,)))

        @worker.handler("t")
        async def process(value: bytes) -> None: ...

        async with running(worker):
            worker.stop()
            for _ in range(pause):
                await checkpoint()
            worker.stop()


@pytest.mark.parametrize("what", ["a key is served again", "a stop waits"])
async def test_a_function_ends_while_its_record_is_settled(
    broker: Broker, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was given up, and what becomes of its record takes longer than the function."""
    monkeypatch.setattr("kshare.worker.run.slot_watch._STUCK_S", 0.2)
    begun, ended = anyio.Event(), anyio.Event()

    async def keep(delivery: Delivery, reason: str) -> None:
        begun.set()
        await anyio.sleep(1.0)

    worker = Worker(
        broker.bootstrap, group="g", dead_letters=keep, breaker=None, concurrency=2, time_limit=0.3
    )
    done: list[bytes | None] = []

    @worker.handler("t", order="key")
    async def process(delivery: Delivery) -> None:
        done.append(delivery.value)
        if delivery.value != b"bad":
            return
        delivery.reject("no")
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await begun.wait()
                ended.set()

    broker.produce("t", [b"bad", b"1", b"2"] if what == "a key is served again" else [b"bad"], key=b"k")
    async with running(worker):
        runner = worker.runners[0]
        await ended.wait()
        if what == "a key is served again":
            await until(lambda: done == [b"bad", b"1", b"2"])
    assert runner.counts.dead == 1
    assert runner.counts.released == 0


async def test_a_second_stop_names_what_was_about_to_be_given_back(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.set_group_config("g", {"share.delivery.count.limit": "2"})
    broker.produce("t", [b"%d" % number for number in range(6)], key=b"k")
    async with ShareConsumer(
        broker.bootstrap, group="g", topics=["t"], acknowledgement="explicit"
    ) as consumer:
        batch = await consumer.next_batch()
        consumer.pause(release=True)
        batch.release()
    worker = Worker(broker.bootstrap, group="g", breaker=None, concurrency=6, drain_timeout=0.5)
    began, goes_on = anyio.Event(), GoesOn()

    @worker.handler("t", order="key")
    async def process(delivery: Delivery) -> None:
        began.set()
        await goes_on.until_over()

    async with running(worker):
        await began.wait()
        runner = worker.runners[0]
        await until(lambda: runner.queue.unavailable == 5)
        worker.stop()
        await until(lambda: runner.queue.unsettled == 0)  # they wait for the end of what is running
        worker.stop()
        goes_on.is_over = True
    assert runner.counts.lost == 6
    assert any(
        "offsets 0 to 5" in message and "the broker archives them" in message for message in caplog.messages
    )
