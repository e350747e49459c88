"""Produces records whose values are numbers."""

from __future__ import annotations

from kafka import KafkaProducer

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
