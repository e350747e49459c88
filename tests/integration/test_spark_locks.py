"""A stream on brokers that can't renew: micro-batches fit into half of the lock duration, and no lock is lost.

The query is driven as Spark drives it, but without Spark. The sink needs a fixed time per record.
"""

from __future__ import annotations

import threading
import time
from typing import cast

import pytest
from kafka import KafkaProducer

from kshare.testing import Broker
from tests.spark.driven import DrivenQuery
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.release("4.1.2")]

LOCK_S = 6.0
A_RECORD_S = 0.004
"""750 records take half the lock duration; 2,000, with which a stream starts, would take more than all of it."""
FEW, MANY = 400, 3_000
A_SEND = 50
"""Records in a producer's batch. Brokers only deliver whole batches."""


def test_micro_batches_fit_the_lock(kafka: Cluster) -> None:
    query = DrivenQuery(cast(Broker, kafka))  # it only uses methods that real clusters have too
    lock = {"share.record.lock.duration.ms": str(int(LOCK_S * 1000))}
    kafka.set_group_config(query.group, {"share.auto.offset.reset": "earliest", **lock})
    sizes: list[int] = []

    more = threading.Thread(target=produce, args=[kafka, query.topic, MANY])

    def ship(step: str, batch: int) -> None:
        if step == "written":
            sizes.append(len(query.sink[batch]))
            time.sleep(A_RECORD_S * sizes[-1])
        if (step, batch) == ("committed", 0):
            more.start()

    produce(kafka, query.topic, FEW)
    query.at = ship
    told = query.run(until=lambda: len(query.written) == FEW + MANY)
    more.join()
    query.expect(FEW + MANY)
    assert max(sizes[1:]) <= LOCK_S / 2 / A_RECORD_S + A_SEND
    assert (told["leasesLost"], told["redelivered"], told["leasesRenewed"]) == (0, 0, 0)


def produce(kafka: Cluster, topic: str, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    for at in range(count):
        producer.send(topic, b"order", partition=0)
        if at % A_SEND == A_SEND - 1:
            producer.flush()
    producer.close()
