"""librdkafka with `group.protocol=consumer` (KIP-848): the same programs on every broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.conftest import FreshTopic
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka]

DEADLINE_S = 60.0
COUNT = 20


@contextmanager
def consuming(kafka: Cluster, group: str, topics: list[str], **options: str) -> Iterator[Consumer]:
    settings = {name.replace("_", "."): value for name, value in options.items()}
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 1000,
            **settings,
        }
    )
    consumer.subscribe(topics)
    try:
        yield consumer
    finally:
        consumer.close()


def produce(kafka: Cluster, topic: str, values: list[bytes], partition: int = -1) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(DEADLINE_S) == 0


def read(consumer: Consumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(values) < count and time.monotonic() < deadline:
        for record in consumer.consume(count - len(values), 1.0):
            assert record.error() is None, record.error()
            values.append(record.value() or b"")
    return values


def until(consumers: list[Consumer], good: Callable[[list[list[TopicPartition]]], bool]) -> None:
    """Poll the consumers until their assignments are good."""
    deadline = time.monotonic() + DEADLINE_S
    while not good(seen := [consumer.assignment() for consumer in consumers]):
        assert time.monotonic() < deadline, seen
        for consumer in consumers:
            consumer.poll(0.1)


def sizes(*expected: int) -> Callable[[list[list[TopicPartition]]], bool]:
    return lambda seen: sorted(map(len, seen)) == sorted(expected)


def test_group_goes_on_after_a_restart(kafka: Cluster, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic()
    for run in range(3):
        sent = [b"%d of run %d" % (number, run) for number in range(COUNT)]
        produce(kafka, topic, sent)
        with consuming(kafka, f"readers of {topic}", [topic]) as consumer:
            assert read(consumer, COUNT) == sent
            consumer.commit(asynchronous=False)
            (committed,) = consumer.committed([TopicPartition(topic, 0)], DEADLINE_S)
            assert committed.offset == COUNT * (run + 1)


def test_two_consumers_share_partitions_and_one_leaves(kafka: Cluster, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic(6)
    for partition in range(6):
        produce(kafka, topic, [b"%d" % partition], partition)
    group = f"readers of {topic}"
    with consuming(kafka, group, [topic]) as one:
        until([one], sizes(6))
        with consuming(kafka, group, [topic]) as two:
            until([one, two], sizes(3, 3))
            taken = {partition.partition for consumer in (one, two) for partition in consumer.assignment()}
            assert taken == set(range(6))
        until([one], sizes(6))


def test_static_member_returns_to_its_partitions(kafka: Cluster, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic(4)
    group = f"readers of {topic}"
    with consuming(kafka, group, [topic], group_instance_id="other") as other:
        with consuming(kafka, group, [topic], group_instance_id="restless") as restless:
            until([other, restless], sizes(2, 2))
            before = {partition.partition for partition in restless.assignment()}
        with consuming(kafka, group, [topic], group_instance_id="restless") as restless:
            until([restless], sizes(2))
            assert {partition.partition for partition in restless.assignment()} == before
        assert len(other.assignment()) == 2


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_assignors(assignor: str, kafka: Cluster, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic(3)
    with consuming(kafka, f"readers of {topic}", [topic], group_remote_assignor=assignor) as consumer:
        until([consumer], sizes(3))


def test_topics_are_found_by_regular_expression(kafka: Cluster, fresh_topic: FreshTopic) -> None:
    mark = uuid.uuid4().hex[:8]
    kafka.create_topic(f"first.{mark}")
    with consuming(kafka, f"readers of {mark}", [rf"^(first|second)\.{mark}$"]) as consumer:
        until([consumer], sizes(1))
        kafka.create_topic(f"second.{mark}", 2)
        until([consumer], sizes(3))
