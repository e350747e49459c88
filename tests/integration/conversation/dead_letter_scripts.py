"""What brokers since 4.4 write into dead letters. Letters are noted without timestamps, sorted by origin."""

from __future__ import annotations

import time
from typing import Any

from kshare.protocol.compression import Compression
from kshare.protocol.messages import DescribeConfigsRequest, FetchRequest, MetadataRequest
from kshare.protocol.messages import fetch_request as fetch
from kshare.protocol.messages.describe_configs_request import DescribeConfigsResource
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.records import read_batches
from tests.integration.conversation.sharer import ACCEPT, GAP, REJECT, RELEASE, Sharer
from tests.integration.conversation.talk import DEADLINE_S, Talk

PREFIX = "errors.deadletterqueue."
_TOPIC = 2
_ENABLED = {f"{PREFIX}group.enable": "true"}


def letters(talk: Talk, topic: str, topic_id: bytes, partitions: int, count: int) -> None:
    """Wait until there are `count` dead letters, and note them."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = [row for index in range(partitions) for row in _read(talk, topic_id, index)]
        if len(found) >= count or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    talk.note("letters", sorted(found))


def _read(talk: Talk, topic_id: bytes, index: int) -> list[Any]:
    partition = fetch.FetchPartition(index, -1, 0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[fetch.FetchTopic(topic_id=topic_id, partitions=[partition])],
    )
    rows = []
    for topic in talk.quietly(request).responses:
        for data in topic.partitions:
            for batch in read_batches(bytes(data.records or b"")):
                for record in batch:
                    headers = [[name, _text(value)] for name, value in record.headers]
                    rows.append([headers, index, _text(record.key), _text(record.value)])
    return rows


def _text(value: bytes | None) -> str:
    return "null" if value is None else bytes(value).decode()


def _fill(talk: Talk, topic: str, partition: int) -> None:
    """Six records with headers, and three compressed ones, of which one has no value."""
    now = time.time_ns() // 1_000_000
    plain, packed = BatchBuilder(), BatchBuilder(compression=Compression.GZIP)
    for number in range(6):
        plain.append(
            b"value %d" % number, key=b"key %d" % number, timestamp=now, headers=[("own", b"header")]
        )
    for number in range(3):
        packed.append(b"value" if number else None, timestamp=now)
    talk.produce_batch(topic, plain, partition)
    talk.produce_batch(topic, packed, partition)


def _settle(talk: Talk, topic: str, group: str, partitions: int) -> Sharer:
    """Three records are rejected, two reach the delivery limit, one is accepted, one acknowledged as a gap."""
    one = Sharer(talk, group, topic, "one")
    one.join(partitions)
    for index in range(partitions):
        _fill(talk, topic, index)
        one.fetch(0, partitions=[index], wait_ms=5000)
        ranges = [
            (0, 0, REJECT),
            (2, 2, REJECT),
            (3, 4, RELEASE),
            (5, 5, ACCEPT),
            (6, 6, REJECT),
            (7, 7, GAP),
        ]
        one.acknowledge(*ranges, partition=index)
        one.fetch(wait_ms=5000)
        one.acknowledge((3, 4, RELEASE), partition=index)
        one.fetch(-1)
    return one


def contexts(talk: Talk) -> None:
    origin, grave = talk.topic("orders", 3), talk.topic("dlq.orders", 2, _ENABLED)
    group = talk.group("g", {f"{PREFIX}topic.name": grave, "share.delivery.count.limit": "2"})
    _settle(talk, origin, group, 3)
    letters(talk, grave, talk.topic_ids[grave], 2, 15)


def copies(talk: Talk) -> None:
    origin, grave = talk.topic("orders"), talk.topic("dlq.orders", 1, _ENABLED)
    settings = {f"{PREFIX}topic.name": grave, f"{PREFIX}copy.record.enable": "true"}
    group = talk.group("g", settings | {"share.delivery.count.limit": "2"})
    _settle(talk, origin, group, 1)
    letters(talk, grave, talk.topic_ids[grave], 1, 5)


def locks_that_run_out(talk: Talk) -> None:
    origin, grave = talk.topic("orders"), talk.topic("dlq.orders", 1, _ENABLED)
    settings = {"share.delivery.count.limit": "2", "share.record.lock.duration.ms": "1000"}
    group = talk.group("g", {f"{PREFIX}topic.name": grave} | settings)
    one = Sharer(talk, group, origin, "one")
    one.join()
    talk.produce(origin, [3])
    one.fetch(0, wait_ms=5000)
    one.fetch(wait_ms=5000)
    letters(talk, grave, talk.topic_ids[grave], 1, 3)


def graves_that_will_not_do(talk: Talk) -> None:
    """Dead-letter topics without the prefix or without permission: the records are archived anyway."""
    origin = talk.topic("orders")
    plain, forbidden = talk.topic("grave", 1, _ENABLED), talk.topic("dlq.forbidden")
    for number, grave in enumerate((plain, forbidden)):
        group = talk.group(f"g-{number}", {f"{PREFIX}topic.name": grave})
        one = Sharer(talk, group, origin, f"one-{number}")
        one.join()
        talk.produce(origin, [3])
        one.fetch(0, wait_ms=5000)
        one.acknowledge((0, 2, REJECT))
    for grave in (plain, forbidden):
        letters(talk, grave, talk.topic_ids[grave], 1, 0)


def a_grave_is_made(talk: Talk) -> None:
    """The broker creates the dead-letter topic, if it may."""
    origin, grave = talk.topic("orders"), talk.name("dlq.made")
    group = talk.group("g", {f"{PREFIX}topic.name": grave})
    one = Sharer(talk, group, origin, "one")
    one.join()
    talk.produce(origin, [3])
    one.fetch(0, wait_ms=5000)
    one.acknowledge((0, 2, REJECT))
    wanted = [MetadataRequestTopic(name=grave)]
    made = talk.wait_for(lambda: MetadataRequest(topics=wanted), lambda a: not a.topics[0].error_code).topics[
        0
    ]
    talk.note("partitions", len(made.partitions))
    letters(talk, grave, made.topic_id, len(made.partitions), 3)
    resource = DescribeConfigsResource(_TOPIC, grave, [f"{PREFIX}group.enable", "cleanup.policy"])
    configs = talk.quietly(DescribeConfigsRequest([resource])).results[0].configs
    talk.note("configured", sorted([config.name, config.value] for config in configs))


SCRIPTS = {
    script.__name__: script
    for script in (contexts, copies, locks_that_run_out, graves_that_will_not_do, a_grave_is_made)
}
