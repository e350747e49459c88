"""Records of an async consumer in another thread than that of its event loop: acknowledging them there is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Literal

import anyio
import pytest

from kshare import KshareError, Producer, ShareConsumer
from kshare.client.record import ShareBatch, ShareRecord
from kshare.testing import Broker
from tests.fakes.tiny_cluster import ACCEPTED, TinyCluster
from tests.helpers.consuming import DEADLINE_S, consumer, next_of

pytestmark = pytest.mark.anyio


@pytest.mark.lengthy
async def test_acknowledging_in_another_thread_is_refused_before_anything_happens() -> None:
    """It took effect, and then raised RuntimeError on trio; asyncio's event loop wasn't woken."""

    def settle_in_a_thread(record: ShareRecord, batch: ShareBatch) -> None:
        for call in (record.accept, record.release, record.reject, record.renew, batch.accept, batch.reject):
            with pytest.raises(KshareError, match="has to be acknowledged there"):
                call()

    async with TinyCluster("t").running() as cluster:
        cluster.topics["t"].append(b"0", b"1")
        with anyio.fail_after(DEADLINE_S):
            async with consumer(cluster, "t", acknowledgement="explicit") as source:
                record = await next_of(source)
                batch = await source.next_batch()
                await anyio.to_thread.run_sync(settle_in_a_thread, record, batch)
                assert record.batch.is_held
                assert batch.is_held
                await anyio.to_thread.run_sync(lambda: anyio.from_thread.run_sync(record.accept))
                batch.accept()
                assert await source.commit() == {("t", 0): None}
        assert cluster.topics["t"].states == [ACCEPTED] * 2


async def test_another_event_loop_is_refused(
    kshare_broker: Broker, anyio_backend_name: Literal["asyncio", "trio"]
) -> None:
    """There, it waited for ever, and the next request in the right one raised RuntimeError."""
    kshare_broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
    kshare_broker.create_topic("orders")

    async def ask(consumer: ShareConsumer, producer: Producer) -> None:
        with anyio.fail_after(DEADLINE_S):
            for call in (consumer.next_batch, consumer.commit, consumer.close, aiter(consumer).__anext__):
                with pytest.raises(
                    KshareError, match="the consumer belongs to the event loop in which it was opened"
                ):
                    await call()
            others: list[Callable[[], Awaitable[object]]] = [
                producer.flush,
                producer.close,
                partial(producer.send, "orders", b"1"),
                partial(producer.enqueue, "orders", b"1"),
            ]
            for other in others:
                with pytest.raises(KshareError, match="the producer belongs to the event loop"):
                    await other()

    def elsewhere(consumer: ShareConsumer, producer: Producer) -> None:
        anyio.run(ask, consumer, producer, backend=anyio_backend_name)

    with anyio.fail_after(DEADLINE_S):
        async with (
            Producer(kshare_broker.bootstrap) as producer,
            ShareConsumer(kshare_broker.bootstrap, group="g", topics=["orders"]) as consumer,
        ):
            await anyio.to_thread.run_sync(elsewhere, consumer, producer)
            await producer.send("orders", b"0")
            assert [record.value for record in await consumer.next_batch()] == [b"0"]
