"""Produces records to any cluster."""

from __future__ import annotations

import anyio
from kafka import KafkaProducer

from kshare import Producer
from tools.kafka.cluster import Cluster

DEADLINE_S = 60.0


def produce(kafka: Cluster, topic: str, count: int, first: int = 0) -> None:
    """Produce records whose values are numbers to all partitions of the topic."""
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    try:
        for number in range(first, first + count):
            producer.send(topic, value=b"%d" % number)
        producer.flush(timeout=DEADLINE_S)
    finally:
        producer.close()


def produce_batches(bootstrap: str, topic: str, count: int, size: int, batch: int) -> None:
    """Produce records of this size to two partitions in turn, in batches with this many records."""

    async def run() -> None:
        async with Producer(bootstrap) as producer:
            for first in range(0, count, batch):
                for _ in range(batch):
                    await producer.enqueue(topic, b"." * size, partition=first // batch % 2)
                await producer.flush()

    anyio.run(run)


def produce_in_turn(kafka: Cluster, topic: str, count: int, partitions: int = 2) -> None:
    """Produce equal records to one partition after the other."""
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    for number in range(count):
        producer.send(topic, b"x", partition=number % partitions)
    producer.close()
