"""Further features of the consumer against real brokers: subscription changes, poison, outcomes, metrics."""

from __future__ import annotations

from collections import Counter
from typing import Any

import anyio
import pytest
from prometheus_client import CollectorRegistry

from kshare import ConsumerOptions, DeserializationFailed, ShareConsumer
from kshare.engine.events import Acknowledged
from kshare.metrics.prometheus import PrometheusObserver
from tests.integration.conftest import FreshGroup, FreshTopic
from tests.integration.producing import DEADLINE_S, produce
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio]


async def take(source: ShareConsumer, count: int) -> list[Any]:
    values: list[Any] = []
    with anyio.fail_after(DEADLINE_S):
        async for record in source:
            values.append(record.value)
            if len(values) == count:
                record.accept()
                break
    return values


async def test_topics_are_subscribed_and_unsubscribed_at_run_time(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    first, second, group = fresh_topic(), fresh_topic(partitions=2), fresh_group()
    produce(kafka, first, 10)
    produce(kafka, second, 10, first=100)
    async with ShareConsumer(kafka.bootstrap, group=group, topics=[first]) as source:
        assert await take(source, 10) == [b"%d" % n for n in range(10)]
        source.subscribe([first, second])
        assert sorted(await take(source, 10)) == [b"%d" % n for n in range(100, 110)]
        source.subscribe([second])
        produce(kafka, first, 5, first=200)
        produce(kafka, second, 5, first=300)
        assert sorted(await take(source, 5)) == [b"%d" % n for n in range(300, 305)]
        assert set((await source.commit()).values()) == {None}
    async with ShareConsumer(kafka.bootstrap, group=group, topics=[first]) as source:
        assert sorted(await take(source, 5)) == [b"%d" % n for n in range(200, 205)]


async def test_only_poison_is_rejected(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, group = fresh_topic(), fresh_group()
    produce(kafka, topic, 20)

    def read(data: bytes) -> int:
        if int(data) % 5 == 3:
            raise ValueError(data)
        return int(data)

    async with ShareConsumer(
        kafka.bootstrap, group=group, topics=[topic], value_deserializer=read, on_poison="reject"
    ) as source:
        assert await take(source, 16) == [n for n in range(20) if n % 5 != 3]
        assert set((await source.commit()).values()) == {None}
    produce(kafka, topic, 1, first=20)
    async with ShareConsumer(kafka.bootstrap, group=group, topics=[topic]) as plain:
        assert await take(plain, 1) == [b"20"]


async def test_raised_poison_is_released_when_the_consumer_closes(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, group = fresh_topic(), fresh_group()
    produce(kafka, topic, 1)

    def refuse(data: bytes) -> None:
        raise ValueError(data)

    async def work() -> None:
        async with ShareConsumer(
            kafka.bootstrap, group=group, topics=[topic], value_deserializer=refuse
        ) as source:
            await take(source, 1)

    with pytest.raises(DeserializationFailed, match=rf"{topic}\[0\]@0: its value"):
        await work()
    async with ShareConsumer(kafka.bootstrap, group=group, topics=[topic]) as source:
        assert await take(source, 1) == [b"0"]


async def test_outcomes_and_metrics_agree_with_what_was_done(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, group = fresh_topic(partitions=2), fresh_group()
    produce(kafka, topic, 300)
    registry = CollectorRegistry()
    said: Counter[str] = Counter()
    errors: set[object] = set()

    def settled(outcome: Acknowledged) -> None:
        said.update(outcome.counts())
        errors.add(outcome.error)

    options: ConsumerOptions = {
        "acknowledgement": "explicit",
        "on_settled": settled,
        "observer": PrometheusObserver(registry),
    }
    async with ShareConsumer(kafka.bootstrap, group=group, topics=[topic], **options) as source:
        seen = 0
        with anyio.fail_after(DEADLINE_S):
            async for record in source:
                seen += 1
                if record.redelivered or int(record.value or b"") % 3 == 0:
                    record.accept()
                elif int(record.value or b"") % 3 == 1:
                    record.reject()
                else:
                    record.release()
                if seen == 400:
                    break
        await source.commit()
    assert (said, errors) == ({"accept": 200, "reject": 100, "release": 100}, {None})

    def metric(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"kshare_{name}", labels)

    for word, count in said.items():
        assert metric("acknowledged_records_total", topic=topic, ack_type=word) == count
    assert metric("acquired_records_total", topic=topic, redelivered="no") == 300
    assert metric("acquired_records_total", topic=topic, redelivered="yes") == 100
    assert metric("fetched_records_total") == 400
    assert (metric("fetched_bytes_total") or 0) > 300
    assert (metric("processing_duration_seconds_count", topic=topic) or 0) > 0
    assert metric("assigned_partitions") == 0
    assert metric("rebalances_total") == 2
    assert metric("requests_total", api="ShareGroupHeartbeat", error="")
