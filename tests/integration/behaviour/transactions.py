"""Records of committed and aborted transactions."""

from __future__ import annotations

import uuid

from kafka import KafkaProducer

from tests.integration.behaviour.work_queue import DEADLINE_S, WorkQueue

COMMITTED = [b"a0", b"a1", b"c0", b"c1"]
ABORTED = [b"b0", b"b1"]


def begin(queue: WorkQueue, values: list[bytes]) -> KafkaProducer:
    """A producer with an open transaction, whose records are on the broker."""
    producer = KafkaProducer(bootstrap_servers=queue.broker.bootstrap, transactional_id=uuid.uuid4().hex)
    producer.init_transactions()
    write(producer, queue.topic, values)
    return producer


def write(producer: KafkaProducer, topic: str, values: list[bytes]) -> None:
    producer.begin_transaction()
    for value in values:
        producer.send(topic, value=value)
    producer.flush(timeout=DEADLINE_S)


def produce_in_transactions(queue: WorkQueue) -> None:
    """Produce three transactions: committed, aborted, committed."""
    producer = begin(queue, COMMITTED[:2])
    try:
        producer.commit_transaction()
        write(producer, queue.topic, ABORTED)
        producer.abort_transaction()
        write(producer, queue.topic, COMMITTED[2:])
        producer.commit_transaction()
    finally:
        producer.close()
