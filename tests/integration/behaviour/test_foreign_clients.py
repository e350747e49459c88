"""Clients of other projects as plain producers and consumers: the same program on every broker.

Each writes records, reads them in a group, restarts, and goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import kafka as kafka_python
import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from tests.helpers.foreign_consumers import aiokafka_consumer, confluent_consumer, kafka_python_consumer
from tests.integration.conftest import FreshTopic
from tests.integration.java_client import JavaClient
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.java]

DEADLINE_S = 60.0
COUNT = 20
Values = list[bytes]


def with_aiokafka(bootstrap: str, topic: str, group: str, sent: Values) -> Values:
    async def run() -> Values:
        async with asyncio.timeout(DEADLINE_S):
            async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
                for value in sent:
                    await producer.send_and_wait(topic, value)
            read: Values = []
            async with aiokafka_consumer(bootstrap, topic, group) as consumer:
                while len(read) < len(sent):
                    read.append((await consumer.getone()).value)
                await consumer.commit()
            return read

    return asyncio.run(run())


def with_kafka_python(bootstrap: str, topic: str, group: str, sent: Values) -> Values:
    producer = kafka_python.KafkaProducer(bootstrap_servers=bootstrap)
    for value in sent:
        producer.send(topic, value).get(timeout=DEADLINE_S)
    producer.close()
    consumer = kafka_python_consumer(bootstrap, topic, group, DEADLINE_S)
    read = [record.value for _, record in zip(sent, consumer, strict=False)]
    consumer.commit()
    consumer.close()
    return read


def with_confluent(bootstrap: str, topic: str, group: str, sent: Values) -> Values:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in sent:
        producer.produce(topic, value)
    assert producer.flush(DEADLINE_S) == 0
    consumer = confluent_consumer(bootstrap, topic, group, **{"group.instance.id": "one"})
    read: Values = []
    while len(read) < len(sent):
        (record,) = consumer.consume(1, DEADLINE_S)
        assert record.error() is None
        read.append(record.value() or b"")
    consumer.commit(asynchronous=False)
    consumer.close()
    return read


@pytest.mark.parametrize(
    "client", [with_aiokafka, with_kafka_python, with_confluent], ids=lambda client: client.__name__
)
def test_group_goes_on_after_a_restart(
    client: Callable[[str, str, str, Values], Values], kafka: Cluster, fresh_topic: FreshTopic
) -> None:
    topic = fresh_topic()
    for run in range(3):
        sent = [b"%d of run %d" % (number, run) for number in range(COUNT)]
        assert client(kafka.bootstrap, topic, f"readers of {topic}", sent) == sent


@pytest.mark.long_on("4.1.2", "4.3.1")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("settings", [[], ["--group.instance.id=one"]], ids=["dynamic", "static"])
def test_group_of_java_goes_on_after_a_restart(
    kafka: Cluster, fresh_topic: FreshTopic, plain_java: JavaClient, settings: list[str], protocol: str
) -> None:
    topic = fresh_topic()
    for run in range(2):
        sent = [f"{number} of run {run}" for number in range(COUNT)]
        words = [f"--group.protocol={protocol}", *settings, *sent]
        read = plain_java.run("group", kafka.bootstrap, topic, f"readers of {topic}", *words)
        assert read == sent
