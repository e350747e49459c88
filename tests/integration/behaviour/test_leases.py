"""Locks that expire, and locks that are renewed."""

from __future__ import annotations

import re

import anyio
import pytest

from kshare import AcknowledgeError, ShareConsumer
from kshare.client.record import ShareBatch, ShareRecord
from kshare.errors import Unsupported
from tests.helpers.consuming import until
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import DEADLINE_S, nothing_comes, take

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.slow]

LOCK_S = 1.0
_LOST = re.compile(r"(\d+) records? of .*: (?:lock expired|redelivered while held)")
"""How many, in a line of the log. A consumer may get some of them again itself."""
SHORT_LOCK = {"share.record.lock.duration.ms": "1000"}


async def test_records_whose_lock_expires_are_redelivered_to_another_consumer(
    fresh_queue: FreshQueue, caplog: pytest.LogCaptureFixture
) -> None:
    """What it accepted in time stays accepted. Acknowledging the other records raises, once it knows."""
    queue = fresh_queue(settings=SHORT_LOCK)
    await queue.produce(10)
    async with queue.consumer(acknowledgement="explicit", renew_leases=False) as slow:
        records = list(await first_batch(slow))
        assert len(records) == 10
        for record in records[:4]:
            record.accept()
        assert set((await slow.commit()).values()) == {None}
        async with queue.consumer() as second, queue.consumer() as third:
            found = await take_from_all([second, third], 6)
            assert sorted(str(record.value) for record in found) == [str(n) for n in queue.values(first=4)]
            assert all(record.redelivered for record in found)
            await until(lambda: sum(map(int, _LOST.findall(caplog.text))) == 6)
            for late in records[4:]:
                with pytest.raises(AcknowledgeError, match="can no longer be acknowledged"):
                    late.accept()
    async with queue.consumer() as source:
        assert await nothing_comes(source)


async def test_a_lease_is_renewed_while_the_user_works(fresh_queue: FreshQueue) -> None:
    """For three times the lock duration. On brokers that can't renew (4.1), acknowledging raises afterwards."""
    queue = fresh_queue(settings=SHORT_LOCK)
    await queue.produce(1)
    async with queue.consumer(acknowledgement="explicit") as source:
        (record,) = await first_batch(source)
        until = anyio.current_time() + 3.2 * LOCK_S
        while anyio.current_time() < until:
            await anyio.sleep(0.05)
        if queue.is_4_1:
            with pytest.raises(AcknowledgeError, match="can no longer be acknowledged"):
                record.accept()
        else:
            record.accept()
            assert list((await source.commit()).values()) == [None]
    async with queue.consumer() as source:
        if queue.is_4_1:
            (again,) = await take(source, 1)
            assert again.redelivered
        else:
            assert await nothing_comes(source)


async def test_renew_raises_at_once_if_brokers_do_not_support_it(fresh_queue: FreshQueue) -> None:
    """The refusal affects nothing else: records accepted before and after it are settled."""
    queue = fresh_queue()
    await queue.produce(2)
    async with queue.consumer(acknowledgement="explicit") as source:
        first, second = await first_batch(source)
        first.accept()
        if queue.is_4_1:
            with pytest.raises(Unsupported, match=r"Kafka 4\.2 can"):
                second.renew()
        else:
            second.renew()
        assert list((await source.commit()).values()) == [None]
        second.accept()
        assert list((await source.commit()).values()) == [None]
    async with queue.consumer() as source:
        assert await nothing_comes(source)


async def first_batch(source: ShareConsumer) -> ShareBatch:
    with anyio.fail_after(DEADLINE_S):
        return await anext(source.batches())


async def take_from_all(sources: list[ShareConsumer], count: int) -> list[ShareRecord]:
    """Consume from all until `count` records were delivered. All are accepted."""
    found: list[ShareRecord] = []

    async def work(source: ShareConsumer) -> None:
        async for batch in source.batches():
            found.extend(batch)
            batch.accept()

    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            for source in sources:
                tasks.start_soon(work, source)
            while len(found) < count:
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
    return found
