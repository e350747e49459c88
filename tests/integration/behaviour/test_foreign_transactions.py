"""Clients of other projects write in transactions: the same programs on every broker.

Each reads ten records in a group, and writes them with their offsets: five in a transaction that is committed, five in
one that is aborted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import kafka as kafka_python
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka.structs import OffsetAndMetadata

from tests.helpers.foreign_consumers import aiokafka_consumer, confluent_consumer, kafka_python_consumer
from tests.integration.conftest import FreshTopic
from tests.integration.java_client import JavaClient
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.java]

DEADLINE_S = 60.0
HALF = 5
VALUES = [b"%d" % number for number in range(2 * HALF)]


def with_aiokafka(bootstrap: str, source: str, target: str, group: str) -> None:
    async def run() -> None:
        consumer = aiokafka_consumer(bootstrap, source, group)
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"aiokafka-{target}")
        async with asyncio.timeout(DEADLINE_S), consumer, producer:
            for is_commit in (True, False):
                await producer.begin_transaction()
                for _ in range(HALF):
                    record = await consumer.getone()
                    await producer.send_and_wait(target, record.value)
                    offsets = {AiokafkaPartition(source, 0): record.offset + 1}
                    await producer.send_offsets_to_transaction(offsets, group)
                await (producer.commit_transaction() if is_commit else producer.abort_transaction())

    asyncio.run(run())


def with_kafka_python(bootstrap: str, source: str, target: str, group: str) -> None:
    consumer = kafka_python_consumer(bootstrap, source, group, DEADLINE_S)
    producer = kafka_python.KafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=f"kafka-python-{target}"
    )
    producer.init_transactions()
    for is_commit in (True, False):
        producer.begin_transaction()
        for _ in range(HALF):
            record = next(consumer)
            producer.send(target, record.value).get(timeout=DEADLINE_S)
            offsets = {kafka_python.TopicPartition(source, 0): OffsetAndMetadata(record.offset + 1, "", -1)}
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        if is_commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    consumer.close()


def with_confluent(bootstrap: str, source: str, target: str, group: str) -> None:
    consumer = confluent_consumer(bootstrap, source, group)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"confluent-{target}"})
    producer.init_transactions(DEADLINE_S)
    for is_commit in (True, False):
        producer.begin_transaction()
        for _ in range(HALF):
            (record,) = consumer.consume(1, DEADLINE_S)
            producer.produce(target, record.value())
            offset = record.offset()
            assert offset is not None
            offsets = [TopicPartition(source, 0, offset + 1)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        if is_commit:
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.flush(DEADLINE_S)
            producer.abort_transaction(DEADLINE_S)
    consumer.close()


Program = Callable[[str, str, str, str], None]


def check(bootstrap: str, source: str, target: str, group: str) -> None:
    """Committed is the first half, and nothing else, as another client sees it."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"check of {target}",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    reader.subscribe([target])
    read = []
    while True:
        (record,) = reader.consume(1, DEADLINE_S)
        if record.error() is not None:
            break
        read.append(record.value())
    reader.close()
    assert read == VALUES[:HALF]
    with_offsets = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    (committed,) = with_offsets.committed([TopicPartition(source, 0)], DEADLINE_S)
    with_offsets.close()
    assert committed.offset == HALF


def filled(bootstrap: str, source: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in VALUES:
        producer.produce(source, value)
    assert producer.flush(DEADLINE_S) == 0


@pytest.mark.parametrize(
    "program", [with_aiokafka, with_kafka_python, with_confluent], ids=lambda program: program.__name__
)
def test_only_what_is_committed_is_seen(program: Program, kafka: Cluster, fresh_topic: FreshTopic) -> None:
    source, target = fresh_topic(), fresh_topic()
    filled(kafka.bootstrap, source)
    program(kafka.bootstrap, source, target, f"readers of {source}")
    check(kafka.bootstrap, source, target, f"readers of {source}")


def test_only_what_java_commits_is_seen(
    kafka: Cluster, fresh_topic: FreshTopic, plain_java: JavaClient
) -> None:
    source, target = fresh_topic(), fresh_topic()
    filled(kafka.bootstrap, source)
    plain_java.run("transactions", kafka.bootstrap, source, target, f"readers of {source}")
    check(kafka.bootstrap, source, target, f"readers of {source}")
