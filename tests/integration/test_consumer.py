"""The share consumer against real brokers: what users are promised."""

from __future__ import annotations

from collections import Counter
from typing import Any

import anyio
import pytest
from kafka import KafkaProducer

from kshare import AcknowledgeError, ShareConsumer
from kshare.client.record import ShareRecord
from tests.integration.conftest import FreshGroup, FreshTopic
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio]

DEADLINE_S = 60.0


def produce(kafka: Cluster, topic: str, count: int, first: int = 0) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    try:
        for number in range(first, first + count):
            producer.send(topic, key=b"k", value=b"%d" % number, headers=[("n", b"%d" % number)])
        producer.flush(timeout=DEADLINE_S)
    finally:
        producer.close()


def consumer(kafka: Cluster, group: str, topic: str, **options: Any) -> ShareConsumer:
    return ShareConsumer(kafka.bootstrap, group=group, topics=[topic], **options)


async def take(source: ShareConsumer, count: int) -> list[ShareRecord]:
    """So many records, each accepted when the next was asked for, the last by hand."""
    found: list[ShareRecord] = []
    with anyio.fail_after(DEADLINE_S):
        async for record in source:
            found.append(record)
            if len(found) == count:
                record.accept()
                break
    return found


async def nothing_comes(source: ShareConsumer, seconds: float = 0.6) -> bool:
    with anyio.move_on_after(seconds):
        async for _ in source:
            return False
    return True


async def test_implicit_every_record_once(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, group = fresh_topic(partitions=3), fresh_group()
    produce(kafka, topic, 500)
    async with consumer(kafka, group, topic) as source:
        found = await take(source, 500)
        assert set((await source.commit()).values()) == {None}
    assert Counter(record.value for record in found) == Counter(b"%d" % n for n in range(500))
    assert {record.delivery_count for record in found} == {1}
    one = found[0]
    assert (one.topic, one.key, one.headers) == (topic, b"k", (("n", one.value),))
    async with consumer(kafka, group, topic) as source:
        produce(kafka, topic, 1, first=500)
        (new,) = await take(source, 1)
        assert new.value == b"500"


async def test_explicit_all_types(kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup) -> None:
    topic, group = fresh_topic(), fresh_group()
    produce(kafka, topic, 9)
    again: list[bytes | None] = []
    async with consumer(kafka, group, topic, acknowledgement="explicit") as source:
        seen = 0
        with anyio.fail_after(DEADLINE_S):
            async for record in source:
                seen += 1
                number = int(record.value or b"")
                if record.redelivered:
                    again.append(record.value)
                    record.accept()
                elif number % 3 == 0:
                    record.accept()
                elif number % 3 == 1:
                    record.release()
                else:
                    record.reject()
                if seen == 12:
                    break
        assert set((await source.commit()).values()) == {None}
        assert sorted(again, key=str) == [b"1", b"4", b"7"]
    async with consumer(kafka, group, topic) as source:
        assert await nothing_comes(source)


async def test_what_is_not_settled_comes_again(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, group = fresh_topic(), fresh_group()
    produce(kafka, topic, 10)
    async with consumer(kafka, group, topic) as source:
        with anyio.fail_after(DEADLINE_S):
            async for record in source:
                if record.value == b"4":
                    break
    async with consumer(kafka, group, topic) as source:
        found = await take(source, 6)
    assert [record.value for record in found] == [b"%d" % n for n in range(4, 10)]


async def test_an_exception_in_the_body_releases_the_record(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, group = fresh_topic(), fresh_group()
    produce(kafka, topic, 3)

    async def work() -> None:
        async with consumer(kafka, group, topic) as source:
            with anyio.fail_after(DEADLINE_S):
                async for record in source:
                    if record.value == b"1":
                        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        await work()
    async with consumer(kafka, group, topic) as source:
        found = await take(source, 2)
    assert [record.value for record in found] == [b"1", b"2"]
    # 4.1 doesn't count a delivery that ended with its session
    assert [record.redelivered for record in found] == [not kafka.release.startswith("4.1.")] * 2


async def test_batches_are_settled_as_a_whole(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, group = fresh_topic(partitions=2), fresh_group()
    produce(kafka, topic, 400)
    seen: Counter[bytes | None] = Counter()
    async with consumer(kafka, group, topic, acknowledgement="explicit") as source:
        with anyio.fail_after(DEADLINE_S):
            async for batch in source.batches():
                seen.update(record.value for record in batch)
                batch.accept()
                if sum(seen.values()) >= 400:
                    break
        assert set((await source.commit()).values()) == {None}
    assert seen == Counter(b"%d" % n for n in range(400))


async def test_two_consumers_share_one_partition(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, group = fresh_topic(), fresh_group()
    seen: list[Counter[bytes | None]] = [Counter(), Counter()]

    async def work(number: int) -> None:
        async with consumer(kafka, group, topic, max_records=20) as source:
            async for record in source:
                seen[number][record.value] += 1
                await anyio.sleep(0.001)

    produced = 0
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work, 0)
            tasks.start_soon(work, 1)
            while not all(seen):  # until both have joined and had their part
                await anyio.to_thread.run_sync(produce, kafka, topic, 50, produced)
                produced += 50
            while len(seen[0] | seen[1]) < produced:
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
    assert set(seen[0] | seen[1]) == {b"%d" % n for n in range(produced)}


async def test_groups_are_independent(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic = fresh_topic()
    produce(kafka, topic, 20)
    for _ in range(2):
        async with consumer(kafka, fresh_group(), topic) as source:
            assert len(await take(source, 20)) == 20


async def test_a_lease_is_renewed_while_the_user_works(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    """Three times as long as the lock. Where brokers can't renew (4.1), acknowledging says that it is too late."""
    topic, group = fresh_topic(), fresh_group(share_record_lock_duration_ms="1000")
    produce(kafka, topic, 1)
    can_renew = not kafka.release.startswith("4.1.")
    async with consumer(kafka, group, topic, acknowledgement="explicit") as source:
        with anyio.fail_after(DEADLINE_S):
            async for record in source:
                until = anyio.current_time() + 3.2
                while anyio.current_time() < until:
                    await anyio.sleep(0.05)
                if can_renew:
                    record.accept()
                    assert list((await source.commit()).values()) == [None]
                else:
                    with pytest.raises(AcknowledgeError, match="its lease is over"):
                        record.accept()
                break
    async with consumer(kafka, group, topic) as source:
        if can_renew:
            assert await nothing_comes(source)
        else:
            (again,) = await take(source, 1)
            assert again.redelivered
