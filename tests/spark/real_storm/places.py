"""The brokers of a storm, to which records can be produced, and whose nodes can be killed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Protocol

import anyio
from confluent_kafka import Producer

from kshare import AdminClient
from kshare.admin.log_offsets import LATEST, log_offsets
from kshare.testing import Broker
from tools.kafka.cluster import Cluster
from tools.kafka.jars import install

NODES = 3
_DOWN_S = 1.0


class Place(Protocol):
    name: str

    @property
    def bootstrap(self) -> str: ...

    def begin(self, topic: str, partitions: int, group: str) -> None: ...

    def produce(self, topic: str, partition: int, count: int) -> None: ...

    def strike(self, random: Random) -> int:
        """Kill a node and restart it. Returns its id."""
        ...


class Embedded:
    name = "embedded"

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def bootstrap(self) -> str:
        return self._broker.bootstrap

    def begin(self, topic: str, partitions: int, group: str) -> None:
        self._broker.create_topic(topic, partitions)
        self._broker.set_group_config(group, {"share.auto.offset.reset": "earliest"})

    def produce(self, topic: str, partition: int, count: int) -> None:
        self._broker.produce(topic, [b"x" * 20] * count, partition=partition)

    def strike(self, random: Random) -> int:
        number = random.randrange(1, NODES + 1)
        self._broker.stop_node(number)
        time.sleep(_DOWN_S)
        self._broker.start_node(number)
        return number


class Real:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.name = f"Kafka {cluster.release}"
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0}
        )

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def begin(self, topic: str, partitions: int, group: str) -> None:
        self._cluster.create_topic(topic, partitions, replicas=NODES, settings={"min.insync.replicas": "2"})
        self._cluster.set_group_config(group, {"share.auto.offset.reset": "earliest"})

    def produce(self, topic: str, partition: int, count: int) -> None:
        for _ in range(count):
            self._producer.produce(topic, b"x" * 20, partition=partition)
        self._producer.flush()

    def strike(self, random: Random) -> int:
        node = random.choice(self._cluster.nodes)
        node.kill()
        self._cluster.restart(node)
        return node.id


@contextmanager
def place(where: str, settings: Mapping[str, str]) -> Iterator[Place]:
    """Start the brokers. `where`: `embedded`, or a release of Kafka."""
    if where == "embedded":
        with Broker(nodes=NODES, settings=settings) as broker:
            yield Embedded(broker)
        return
    install(where)
    with Cluster(where, NODES, settings=settings) as cluster:
        yield Real(cluster)


def ends(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    """The end offset of each partition."""

    async def ask() -> dict[int, int]:
        async with AdminClient(bootstrap) as admin:
            found = await log_offsets(
                admin._router(), [(topic, number) for number in range(partitions)], LATEST
            )
            return {number: found[topic, number] for number in range(partitions)}

    return anyio.run(ask)


def lag(bootstrap: str, group: str, topic: str) -> int:
    """The group's lag, as the broker reports it."""

    async def ask() -> int:
        async with AdminClient(bootstrap) as admin:
            rows = await admin.share_group_offsets(group, {topic: None})
            return sum(row.lag or 0 for row in rows)

    return anyio.run(ask)
