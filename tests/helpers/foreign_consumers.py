"""Consumers of other clients, in consumer groups: they read from the start, and commit only when they are told to."""

from __future__ import annotations

from typing import Any

import kafka as kafka_python
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer


def aiokafka_consumer(bootstrap: str, topic: str, group: str) -> Any:
    return AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


def kafka_python_consumer(bootstrap: str, topic: str, group: str, timeout_s: float) -> Any:
    """Ends when nothing comes for so long."""
    return kafka_python.KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=int(timeout_s * 1000),
    )


def confluent_consumer(bootstrap: str, topic: str, group: str, **options: Any) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **options,
        }
    )
    consumer.subscribe([topic])
    return consumer
