"""A `dead_letters` function that hangs, or goes on although it was cancelled, harms no record but its own, and that one
isn't settled without a word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

import anyio
import pytest

from kshare import ShareConsumer
from kshare.testing import Broker
from kshare.worker import Delivery, Retry, RetryTopics, Worker
from tests.helpers.consuming import next_of
from tests.helpers.running_worker import from_the_start, running, until

pytestmark = [pytest.mark.anyio, pytest.mark.lengthy]

LONGEST_S = 25.0
GOES_ON = "calls of dead_letters continue although they were cancelled"


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    from_the_start(kshare_broker)
    kshare_broker.create_topic("t")
    return kshare_broker


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kshare.worker.settle.keep_calls._GRACE_S", 0.2)
    monkeypatch.setattr("kshare.worker.settle.copies._KEEP_LIMIT_S", 0.5)
    monkeypatch.setattr("kshare.worker.run.draining.LAST_WRITES_S", 1.0)


class Keeper:
    """Swallows its cancellation until it `may_end`."""

    def __init__(self, *, fails_first: bool = False) -> None:
        self.calls: Counter[bytes | None] = Counter()
        self.may_end = False
        self._fails_first = fails_first

    async def __call__(self, delivery: Delivery, reason: str) -> None:
        self.calls[delivery.value] += 1
        if self._fails_first and self.calls[delivery.value] == 1:
            raise OSError("down")
        until = anyio.current_time() + LONGEST_S  # for tests that fail
        while not self.may_end and anyio.current_time() < until:
            try:
                await anyio.sleep(0.01)
            except BaseException:
                continue


def rejecting_bad(broker: Broker, keep: Callable[[Delivery, str], Awaitable[None]]) -> Worker:
    """With one slot, a record that is rejected, and twenty others."""
    worker = Worker(broker.bootstrap, group="g", dead_letters=keep, breaker=None, concurrency=1)

    @worker.handler("t")
    async def process(delivery: Delivery) -> None:
        if delivery.value == b"bad":
            delivery.reject("no")

    broker.produce("t", [b"bad", *(b"%d" % number for number in range(20))])
    return worker


async def everything(broker: Broker, count: int) -> set[bytes | None]:
    found: set[bytes | None] = set()
    with anyio.move_on_after(15):
        async with ShareConsumer(broker.bootstrap, group="g", topics=["t"]) as consumer:
            async for record in consumer:
                found.add(record.value)
                if len(found) == count:
                    break
    return found


async def test_a_slot_is_free_again_and_the_function_is_not_called_twice_for_a_record(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    keep = Keeper()
    worker = rejecting_bad(broker, keep)
    async with running(worker):
        await until(lambda: worker.runners[0].counts.done == 20)
        await anyio.sleep(1.5)  # keeping it was tried again
        assert keep.calls == {b"bad": 1}
        [line] = [message for message in caplog.messages if GOES_ON in message]
        assert "t[0]@0" in line
        keep.may_end = True
        await until(lambda: keep.calls[b"bad"] == 2)
        await until(lambda: worker.runners[0].counts.dead == 1)


async def test_there_are_only_so_many_calls_that_go_on(broker: Broker) -> None:
    keep = Keeper()
    worker = Worker(broker.bootstrap, group="g", dead_letters=keep, breaker=None, concurrency=2)

    @worker.handler("t")
    async def reject(delivery: Delivery) -> None:
        delivery.reject("no")

    broker.produce("t", [b"%d" % number for number in range(10)])
    async with running(worker):
        await until(lambda: worker.runners[0].queue.held == 10)
        await anyio.sleep(1.5)  # keeping them was tried again
        assert keep.calls.total() <= 4  # two that go on, and two that were running meanwhile
        keep.may_end = True
        await until(lambda: worker.runners[0].counts.dead == 10)


async def test_the_last_delivery_of_its_record_is_named_as_lost(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.set_group_config("g", {"share.delivery.count.limit": "2"})
    broker.produce("t", [b"1"])
    async with ShareConsumer(
        broker.bootstrap, group="g", topics=["t"], acknowledgement="explicit"
    ) as consumer:
        (await next_of(consumer)).release()
        consumer.pause(release=True)
    keep = Keeper()
    worker = Worker(broker.bootstrap, group="g", dead_letters=keep, breaker=None, drain_timeout=0.1)

    @worker.handler("t")
    async def process(value: bytes) -> None: ...

    async with running(worker):
        await until(lambda: keep.calls.total() == 1)
        runner = worker.runners[0]
        worker.stop()
        await until(lambda: runner.counts.lost == 1)
        keep.may_end = True
    assert any(
        "t[0] (offset 0): archived by the broker without a copy" in message for message in caplog.messages
    )


@pytest.mark.parametrize("how", ["rejected", "held", "the function"])
async def test_other_records_are_given_back_at_a_stop(broker: Broker, how: str) -> None:
    """700: more than are handed back at once."""
    keep = Keeper(fails_first=how == "held")
    worker = Worker(
        broker.bootstrap,
        group="g",
        dead_letters=keep,
        concurrency=50,
        breaker=None,
        drain_timeout=0.2,
        retry=Retry(attempts=5, delay=60.0),
        hold_up_to=90.0,
        max_held=5000,
    )
    seen: set[bytes | None] = set()

    @worker.handler("t")
    async def process(delivery: Delivery) -> None:
        seen.add(delivery.value)
        if delivery.value != b"bad":
            raise ValueError
        delivery.reject("no")
        if how == "rejected":
            await anyio.sleep_forever()

    broker.produce("t", [b"bad", *(b"%d" % number for number in range(700))])
    async with running(worker):
        runner = worker.runners[0]
        await until(lambda: runner.queue.held >= 700)
        if how != "rejected":
            await until(lambda: keep.calls[b"bad"] == 1)
        worker.stop()
        found = await everything(broker, 701)
        assert len(found) == 701
        keep.may_end = True


async def test_copies_of_other_records_are_written_at_a_stop(broker: Broker) -> None:
    async def keep(delivery: Delivery, reason: str) -> None:
        await anyio.sleep_forever()

    worker = Worker(
        broker.bootstrap,
        group="g",
        dead_letters=keep,
        breaker=None,
        drain_timeout=0.2,
        retry=Retry(attempts=5, delay=60.0),
        hold_up_to=90.0,
        retry_topics=RetryTopics(tiers=(600.0,)),
    )

    @worker.handler("t")
    async def process(delivery: Delivery) -> None:
        if delivery.value != b"bad":
            raise ValueError
        delivery.reject("no")

    broker.produce("t", [b"bad", *(b"%d" % number for number in range(50))])
    async with running(worker):
        runner = worker.runners[0]
        await until(lambda: runner.queue.held >= 50)
    assert len(broker.records("t.retry.10m")) == 50
    assert runner.counts.lost == 0


async def _leaves_a_scope(delivery: Delivery, reason: str) -> None:
    anyio.CancelScope().__enter__()


async def _raises_a_base_exception(delivery: Delivery, reason: str) -> None:
    raise SystemExit(3)


async def _awaits_what_was_cancelled(delivery: Delivery, reason: str) -> None:
    raise anyio.get_cancelled_exc_class()()


@pytest.mark.parametrize("keep", [_leaves_a_scope, _raises_a_base_exception, _awaits_what_was_cancelled])
async def test_whatever_it_does_ends_nobody_else(
    broker: Broker,
    keep: Callable[[Delivery, str], Awaitable[None]],
    anyio_backend_name: str,
) -> None:
    if keep is _awaits_what_was_cancelled and anyio_backend_name == "trio":
        return  # only asyncio's tasks can be cancelled one by one
    worker = rejecting_bad(broker, keep)
    async with running(worker):
        runner = worker.runners[0]
        await until(lambda: runner.counts.done == 20)
    assert runner.counts.lost == runner.counts.dead == 0
