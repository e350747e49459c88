"""Records that nobody saw keep their deliveries; what the end of a session costs; no hot loop on empty responses."""

from __future__ import annotations

import anyio
import pytest

from kshare.client.consumer import source_of
from kshare.engine.delivery_limit import limit_in, limit_request
from kshare.engine.events import Assigned, Event, Responded
from kshare.state.unseen_releases import FIRST_S
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import DEADLINE_S, WorkQueue, in_thread, until
from tests.integration.producing import produce_batches

pytestmark = [pytest.mark.kafka, pytest.mark.anyio]

RECORDS = 300
BATCH = 50
"""Of the producer: brokers hand out whole batches, so that one of all records would leave none."""
OPENED = 8
LIMIT = 5
LASTS_S = 3.0
FEW = 16
"""Less than there are in a producer batch."""
MOST_FETCHES = 60
"""Without a brake, there are thousands."""


async def delivery_counts(queue: WorkQueue, records: int) -> dict[int, int]:
    """By offset; everything is accepted."""
    found: dict[int, int] = {}
    async with queue.consumer() as consumer:
        with anyio.fail_after(DEADLINE_S):
            while len(found) < records:
                batch = await consumer.next_batch()
                found |= {record.offset: record.delivery_count for record in batch}
                batch.accept()
    return found


async def test_stopped_consumer_fetches_nothing_with_another_maximum(fresh_queue: FreshQueue) -> None:
    """300 of 300 records were archived, and nobody had seen them."""
    queue = fresh_queue()
    for _ in range(0, RECORDS, BATCH):
        await queue.produce(BATCH)
    async with queue.consumer(max_records=BATCH) as consumer:
        with anyio.fail_after(DEADLINE_S):
            first = await consumer.next_batch()
        accepted = len(first)
        first.accept()
        consumer.pause(release=True)
        consumer.set_max_records(1000)
        await anyio.sleep(LASTS_S)
    counts = await delivery_counts(queue, RECORDS - accepted)
    assert max(counts.values()) <= LIMIT - 2


async def test_opening_without_asking_costs_no_delivery(fresh_queue: FreshQueue) -> None:
    """16 records were archived in 8 starts."""
    queue = fresh_queue()
    await queue.produce(RECORDS)
    for _ in range(OPENED):
        events: list[Event] = []
        async with queue.consumer(observer=events.append):
            await is_assigned(events)
    assert set((await delivery_counts(queue, RECORDS)).values()) == {1}


async def test_measured_what_the_end_of_a_session_costs(fresh_queue: FreshQueue) -> None:
    """A delivery since Kafka 4.2, whether or not anybody has seen the record."""
    queue = fresh_queue()
    await queue.produce(10)
    async with queue.consumer(acknowledgement="explicit") as consumer:
        with anyio.fail_after(DEADLINE_S):
            await consumer.next_batch()
    assert set((await delivery_counts(queue, 10)).values()) == {1 if queue.is_4_1 else 2}


async def test_a_paused_partition_goes_on_though_records_of_it_are_settled_meanwhile(
    fresh_queue: FreshQueue,
) -> None:
    """Settling them was believed to add the partition to the session again. If the pause ended then, nothing was
    fetched any more."""
    queue = fresh_queue()
    await queue.produce(RECORDS)
    async with queue.consumer(acknowledgement="explicit", max_records=RECORDS) as consumer:
        with anyio.fail_after(DEADLINE_S):
            held = [*await consumer.next_batch()]
            while len(held) < RECORDS // 2:
                held += await consumer.next_batch()
            left = RECORDS
            for record in held:
                if record is held[0]:
                    assert source_of(consumer).release_unseen(record)
                    continue
                record.accept()
                left -= 1
                await consumer.commit()
                await anyio.sleep(1.5 * FIRST_S / len(held))
            while left:
                batch = await consumer.next_batch()
                left -= len(batch)
                batch.accept()
                await consumer.commit()


@pytest.mark.parametrize("acquire", ["auto", "records", "batches"])
async def test_records_above_deleted_ones_are_delivered(fresh_queue: FreshQueue, acquire: str) -> None:
    """Real brokers stand still before the deleted ones in record-limit mode, and get thousands of fetches a second,
    until the session is opened again."""
    queue, events, found = fresh_queue(), list[Event](), list[int]()
    if queue.is_4_1:
        acquire = "batches"
    await in_thread(produce_batches, queue.broker.bootstrap, queue.topic, RECORDS, 10, RECORDS)
    async with queue.consumer(acknowledgement="explicit", max_records=FEW) as consumer:
        with anyio.fail_after(DEADLINE_S):
            await consumer.next_batch()
    await queue.delete_records(RECORDS // 2)
    async with queue.consumer(observer=events.append, max_records=FEW, acquire=acquire) as consumer:
        with anyio.fail_after(DEADLINE_S):
            while not {*range(RECORDS // 2, RECORDS)} <= {*found}:
                batch = await consumer.next_batch()
                found += [record.offset for record in batch]
                batch.accept()
                await consumer.commit()
    assert len(found) == len({*found})
    assert len(fetches(events)) <= MOST_FETCHES


def fetches(events: list[Event]) -> list[Responded]:
    return [event for event in events if isinstance(event, Responded) and event.api == "ShareFetch"]


async def is_assigned(events: list[Event]) -> None:
    await until(lambda: any(isinstance(event, Assigned) and event.gained for event in events))
    await anyio.sleep(0.3)  # in which it could fetch


@pytest.mark.release("4.3.1", "4.4.0", "embedded")
async def test_brokers_say_what_the_limit_of_a_group_is(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue()
    assert limit_in(await queue.ask(limit_request(queue.group))) == LIMIT
    await queue.configure_group({"share.delivery.count.limit": "7"})
    assert limit_in(await queue.ask(limit_request(queue.group))) == 7
