"""A producer whose leaders stop cleanly while followers lag, and whose responses are lost: what it says is so.

A leader that stops responds NOT_LEADER_OR_FOLLOWER to what it has appended and some follower doesn't have
yet. The next leader may have it all the same. The log is read with another client.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import anyio
import anyio.to_thread
import pytest
from kafka import KafkaConsumer, TopicPartition

from kshare import KshareError, Producer
from kshare.admin.log_sizes import log_sizes
from kshare.admin.routing import Router
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from tests.helpers.fates import Fates
from tests.helpers.lossy_proxies import LossyProxies
from tests.integration.conftest import StartCluster
from tests.integration.reporting import say, write_report
from tools.kafka.cluster import Cluster
from tools.kafka.jars import NEWEST_RELEASE
from tools.kafka.node import Node

pytestmark = [pytest.mark.kafka, pytest.mark.anyio, pytest.mark.lengthy]

TOPIC = "orders"
PARTITIONS = 12
TIMEOUTS_S = (0.7, 1.5, 3.0, 8.0)
ROUNDS = 8
LEAST_ROUND_S = 5.0
"""How long a round lasts at least. With a longer timeout, all outcomes may become known."""
LOST = 0.05
SEED = 35
REPORT = Path("producer-outcomes.md")
MANY_REPLICAS = {"min.insync.replicas": "2"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_leader_that_stops_cleanly_before_a_follower_has_the_record(
    start_cluster: StartCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = await anyio.to_thread.run_sync(lambda: start_cluster(NEWEST_RELEASE, nodes=3))
    cluster.create_topic(TOPIC, 1, settings=MANY_REPLICAS)
    proxies = LossyProxies([node.address() for node in cluster.nodes], Random(SEED))
    fates = Fates()
    async with anyio.create_task_group() as tasks:
        await tasks.start(proxies.run)
        proxies.lead(monkeypatch.setattr)
        async with Producer(proxies.bootstrap, linger=0, delivery_timeout=20) as producer:
            await fates.note(b"first", await producer.enqueue(TOPIC, b"first", partition=0))
            leader = await leader_of(cluster, 0)
            follower = next(node for node in cluster.nodes if node is not leader)
            size = await size_of(cluster)
            await anyio.to_thread.run_sync(follower.pause)
            send = await producer.enqueue(TOPIC, b"second", partition=0)
            with anyio.fail_after(10):
                while await size_of(cluster, leader) <= size:
                    await anyio.sleep(0.05)
            proxies.shut_after_response()
            await anyio.to_thread.run_sync(leader.stop)
            await fates.note(b"second", send)
            proxies.is_shut = False
            await anyio.to_thread.run_sync(follower.resume)
            await anyio.to_thread.run_sync(cluster.restart, leader)
            await is_written_again(producer, fates)
        tasks.cancel_scope.cancel()
    assert fates.contradictions(await anyio.to_thread.run_sync(logs_of, cluster, 1)) == []
    assert b"second" in fates.open


async def is_written_again(producer: Producer, fates: Fates) -> None:
    with anyio.fail_after(60):
        for number in range(60):
            value = b"again %d" % number
            await fates.note(value, await producer.enqueue(TOPIC, value, partition=0))
            if value in fates.written:
                return


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_storm(
    start_cluster: StartCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = await anyio.to_thread.run_sync(lambda: start_cluster(NEWEST_RELEASE, nodes=3))
    cluster.create_topic(TOPIC, PARTITIONS, settings=MANY_REPLICAS)
    random = Random(SEED)
    proxies = LossyProxies([node.address() for node in cluster.nodes], random)
    all_fates, events, began = [Fates() for _ in TIMEOUTS_S], list[str](), time.monotonic()
    async with anyio.create_task_group() as tasks:
        await tasks.start(proxies.run)
        proxies.lead(monkeypatch.setattr)
        proxies.share = LOST
        stopping = anyio.Event()
        async with anyio.create_task_group() as producing:
            for number, timeout in enumerate(TIMEOUTS_S):
                producing.start_soon(produce, proxies, number, timeout, all_fates[number], stopping)
            for number in range(ROUNDS):
                events.append(await one_round(cluster, number, random))
            stopping.set()
        tasks.cancel_scope.cancel()
    logs = await anyio.to_thread.run_sync(logs_of, cluster, PARTITIONS)
    found = [contradiction for fates in all_fates for contradiction in fates.contradictions(logs)]
    said = [f"- {timeout:g} s: {fates}" for timeout, fates in zip(TIMEOUTS_S, all_fates, strict=True)]
    report = "\n".join(
        [
            *(f"- {event}" for event in events),
            "",
            f"Four producers wrote {sum(fates.count for fates in all_fates):,} records in "
            f"{time.monotonic() - began:.0f} s through proxies that lost {proxies.lost:,} responses. They said, by "
            "their delivery timeouts:",
            "",
            *said,
            "",
            f"Another client has read the log. Contradictions: {len(found)}.",
        ]
    )
    say(capsys, report)
    assert found == []
    assert all(fates.written for fates in all_fates)
    assert all(
        fates.open for timeout, fates in zip(TIMEOUTS_S, all_fates, strict=True) if timeout < LEAST_ROUND_S
    )
    title = "Producers, three brokers: leaders that stop, followers that lag, lost responses"
    write_report(REPORT, title, report)


async def one_round(cluster: Cluster, number: int, random: Random) -> str:
    """A follower lags while the leader of some partition stops cleanly."""
    began = time.monotonic()
    leader = await leader_of(cluster, random.randrange(PARTITIONS))
    follower = random.choice([node for node in cluster.nodes if node is not leader])
    await anyio.to_thread.run_sync(follower.pause)
    await anyio.sleep(random.uniform(0.2, 0.45))
    await anyio.to_thread.run_sync(leader.stop)
    await anyio.to_thread.run_sync(follower.resume)
    await anyio.to_thread.run_sync(cluster.restart, leader)
    return f"froze node {follower.id}, stopped node {leader.id}, and started both ({time.monotonic() - began:.1f} s)"


async def produce(
    proxies: LossyProxies, producer: int, timeout: float, fates: Fates, stopping: anyio.Event
) -> None:
    number = 0
    async with anyio.create_task_group() as tasks:
        while not stopping.is_set():
            try:
                async with Producer(
                    proxies.bootstrap, delivery_timeout=timeout, request_timeout=5, close_timeout=10
                ) as opened:
                    while not stopping.is_set():
                        value = b"%d of %d" % (number, producer)
                        try:
                            send = await opened.enqueue(TOPIC, value, partition=number % PARTITIONS)
                        except KshareError:
                            continue  # not in the buffer
                        tasks.start_soon(fates.note, value, send)
                        number += 1
                        await anyio.sleep(0.01)
            except KshareError:
                await anyio.sleep(0.1)  # it couldn't be opened, or closing tells what `fates` know


async def leader_of(cluster: Cluster, partition: int) -> Node:
    async with Pool(NetSettings.parse(cluster.bootstrap)) as pool:
        number, _ = await Router(pool, 30).leader(TOPIC, partition, anyio.current_time() + 30)
    return next(node for node in cluster.nodes if node.id == number)


async def size_of(cluster: Cluster, node: Node | None = None) -> int:
    where = cluster.bootstrap if node is None else "{}:{}".format(*node.address())
    async with Pool(NetSettings.parse(where)) as pool:
        await pool.bootstrap()
        return (await log_sizes(Router(pool, 30), [(TOPIC, 0)]))[TOPIC, 0]


def logs_of(cluster: Cluster, partitions: int) -> dict[int, list[Any]]:
    """Read with kafka-python."""
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap, enable_auto_commit=False)
    try:
        return {
            number: list(records_of(consumer, TopicPartition(TOPIC, number))) for number in range(partitions)
        }
    finally:
        consumer.close()


def records_of(consumer: KafkaConsumer, place: TopicPartition) -> Iterator[Any]:
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    end = consumer.end_offsets([place])[place]
    deadline = time.monotonic() + 120
    while consumer.position(place) < end:
        assert time.monotonic() < deadline
        for records in consumer.poll(timeout_ms=500).values():
            yield from records
