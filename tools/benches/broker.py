"""The real broker that all studies use, with its topics and groups. It is started when it is first needed."""

from __future__ import annotations

import atexit
import functools
import itertools
import time
from collections.abc import Iterable, Mapping

from kshare.protocol.messages import ShareGroupDescribeRequest
from tests.helpers.plain_client import plain_client
from tools.benches.study import progress
from tools.kafka.cluster import Cluster
from tools.kafka.jars import install
from tools.kafka.listeners import Listener
from tools.kafka.ports import free_ports

RELEASE = "4.3.1"
_JOIN_DEADLINE_S = 90.0
_POLL_S = 0.1
_AT_ONCE = 4_000_000
"""The maximum number of records for each call of a tool, since calls have a deadline."""
_numbers = itertools.count(1)


@functools.cache
def broker() -> Cluster:
    progress(f"starting a broker of Kafka {RELEASE}")
    install(RELEASE)
    cluster = Cluster(
        RELEASE,
        listeners=[Listener.DETOURED],
        advertised={Listener.DETOURED: detour_port()},
        is_optimised=True,
    )
    cluster.start()
    atexit.register(cluster.__exit__, None, None, None)
    return cluster


@functools.cache
def detour_port() -> int:
    """The port that the broker advertises for the listener DETOURED, where a proxy listens."""
    (port,) = free_ports(1)
    return port


def fresh_topic(partitions: int) -> str:
    name = f"bench-topic-{next(_numbers)}"
    broker().create_topic(name, partitions)
    return name


def fresh_group(settings: Mapping[str, str] | None = None) -> str:
    """Create a group that starts at the earliest record."""
    name = f"bench-group-{next(_numbers)}"
    broker().set_group_config(name, {"share.auto.offset.reset": "earliest", **(settings or {})})
    return name


def at(topic: str, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a consumer is told: the broker, the topic, and a fresh group."""
    return {"bootstrap": broker().bootstrap, "topic": topic, "group": fresh_group(settings)}


def await_members(bootstrap: str, group: str, count: int) -> None:
    """Return when this many members have received their assignment."""
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    deadline = time.monotonic() + _JOIN_DEADLINE_S
    with plain_client((host, int(port))) as client:
        while True:
            described = client.ask(ShareGroupDescribeRequest(group_ids=[group])).groups[0]
            ready = [
                member
                for member in described.members
                if member.assignment.topic_partitions and member.member_epoch == described.assignment_epoch
            ]
            if len(ready) == count == len(described.members):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(ready)} of {count} members have joined {group} in time")
            time.sleep(_POLL_S)


@functools.cache
def filled_topic(partitions: int, records: int, size: int = 100, codec: str = "none") -> str:
    """A topic with records of one size, written by Kafka's own performance tool. Every study reads the same one."""
    topic = fresh_topic(partitions)
    for begin in range(0, records, _AT_ONCE):
        progress(f"writing records of {size} bytes, {begin:,} of {records:,}")
        broker().run_tool(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", topic, "--num-records", str(min(_AT_ONCE, records - begin))),
            *("--record-size", str(size), "--throughput", "-1"),
            *("--command-property", "linger.ms=5", "batch.size=65536", f"compression.type={codec}"),
        )
    return topic


def produce(topic: str, values: Iterable[tuple[int, bytes]]) -> None:
    """Write values (partition, value), in batches of 16 KiB and 5 ms, which are the defaults of Java's producer."""
    import confluent_kafka  # only installed with the extra `bench`, which tests don't need

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker().bootstrap, "batch.size": 16384, "linger.ms": 5}
    )
    for partition, value in values:
        producer.produce(topic, value, partition=partition)
    unwritten = producer.flush(60)
    if unwritten:
        raise TimeoutError(f"{unwritten} records weren't written within a minute")
