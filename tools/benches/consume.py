"""Share consumers against one real broker: the same records in four partitions, each contender in a group of its own.

Values are read by all. Time counts from the first record, so that joining the group (a second for us, five for others)
is left out; it is a case of its own. "tuned" allows 4,000 locks a partition and asks for 8,000 records at a time,
"defaults" is what a user gets who sets nothing.
"""

from __future__ import annotations

import atexit
import itertools
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import confluent_kafka

from kshare import ShareConsumer
from tools.benches.measure import Case, Comparison, Suite, Timed
from tools.kafka.cluster import Cluster

RECORDS = 300_000
PARTITIONS = 4
TOPIC = "bench"
RELEASE = "4.3.1"
_LOCKS = {"share.partition.max.record.locks": "4000"}
_TUNED = {"max_records": 8000}
_groups = itertools.count(1)


def suite() -> Suite:
    cluster = _prepared_cluster()

    def ours(read: Callable[..., Any], *, tuned: bool, **options: Any) -> Case:
        def run() -> Timed:
            group = _group(cluster, tuned=tuned)
            all_options = {**(_TUNED if tuned else {}), **options}
            source = ShareConsumer(cluster.bootstrap, group=group, topics=[TOPIC], **all_options)
            timed: Timed = anyio.run(_consume, source, read)
            return timed

        return run

    def confluents(*, tuned: bool, explicit: bool = False) -> Case:
        return lambda: _consume_confluent(
            cluster, _group(cluster, tuned=tuned), tuned=tuned, explicit=explicit
        )

    cases: dict[str, Case] = {
        "kshare batches, tuned": ours(_by_batches, tuned=True),
        "kshare records, tuned": ours(_by_records, tuned=True),
        "kshare records accepted one by one, tuned": ours(
            _one_by_one, tuned=True, acknowledgement="explicit"
        ),
        "confluent-kafka, tuned": confluents(tuned=True),
        "confluent-kafka accepted one by one, tuned": confluents(tuned=True, explicit=True),
        "kshare batches, defaults": ours(_by_batches, tuned=False),
        "confluent-kafka, defaults": confluents(tuned=False),
    }
    pairs = [
        ("batches, tuned", "kshare batches, tuned", "confluent-kafka, tuned"),
        ("records, tuned", "kshare records, tuned", "confluent-kafka, tuned"),
        (
            "accepted one by one, tuned",
            "kshare records accepted one by one, tuned",
            "confluent-kafka accepted one by one, tuned",
        ),
        ("batches, defaults", "kshare batches, defaults", "confluent-kafka, defaults"),
    ]
    comparisons = [Comparison(f"consume {name}: kshare / confluent-kafka", *pair) for name, *pair in pairs]
    return Suite("consume", "record", cases, comparisons, warms_up=False)


def _prepared_cluster() -> Cluster:
    cluster = Cluster(RELEASE, settings={"group.share.max.partition.max.record.locks": "10000"})
    cluster.start()
    atexit.register(cluster.__exit__, None, None, None)
    cluster.create_topic(TOPIC, PARTITIONS)
    cluster.run_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", TOPIC, "--num-records", str(RECORDS), "--record-size", "100", "--throughput", "-1"),
        *("--command-property", "linger.ms=5", "batch.size=65536"),
    )
    return cluster


def _group(cluster: Cluster, *, tuned: bool) -> str:
    name = f"bench-{next(_groups)}"
    cluster.set_group_config(name, {"share.auto.offset.reset": "earliest", **(_LOCKS if tuned else {})})
    return name


async def _consume(source: ShareConsumer, read: Callable[[ShareConsumer], AsyncIterator[int]]) -> Timed:
    seen, start = 0, 0.0
    async with source as consumer:
        async for count in read(consumer):
            start = start or time.perf_counter()
            seen += count
            if seen >= RECORDS:
                break
        return Timed(seen, time.perf_counter() - start)


async def _by_batches(consumer: ShareConsumer) -> AsyncIterator[int]:
    async for batch in consumer.batches():
        count = 0
        for record in batch.raw():
            count += record.value is not None
        yield count


async def _by_records(consumer: ShareConsumer) -> AsyncIterator[int]:
    async for record in consumer:
        yield record.value is not None


async def _one_by_one(consumer: ShareConsumer) -> AsyncIterator[int]:
    async for record in consumer:
        record.accept()
        yield record.value is not None


def _consume_confluent(cluster: Cluster, group: str, *, tuned: bool, explicit: bool) -> Timed:
    config: dict[str, str | int] = {"bootstrap.servers": cluster.bootstrap, "group.id": group}
    if tuned:
        config |= {"max.poll.records": 8000}
    if explicit:
        config |= {"share.acknowledgement.mode": "explicit"}
    consumer = confluent_kafka.ShareConsumer(config)
    consumer.subscribe([TOPIC])
    seen, start = 0, 0.0
    deadline = time.monotonic() + 120
    while seen < RECORDS:
        if time.monotonic() > deadline:
            raise TimeoutError(f"confluent-kafka: {seen} of {RECORDS} records in two minutes")
        for message in consumer.poll(1.0):
            start = start or time.perf_counter()
            if message.error() is None:
                seen += message.value() is not None
                if explicit:
                    consumer.acknowledge(message)
    timed = Timed(seen, time.perf_counter() - start)
    consumer.close()
    return timed
