"""Real clients against a real broker through `kshare trace`: all of it is decoded, and nobody is blamed.

The clients are Apache's (Java), confluent-kafka (C) and ours; one release is looked at closely, others in short.
confluent-kafka 2.16 can't be clean on 4.1.2, where half of its member ids are refused, as the linter says.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, ShareConsumer

from kshare import sync
from tests.capture.loopback import captured, may_capture
from tests.cli.running import kshare
from tests.cli.tracing import Trace, tracing
from tests.integration.conftest import FreshGroup, FreshTopic
from tools.kafka.cluster import Cluster
from tools.kafka.tool import run_tool

pytestmark = [pytest.mark.kafka, pytest.mark.java]

RECORDS = 2000
DEADLINE_S = 60


def java(address: str, topic: str, group: str) -> None:
    said = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        *("--bootstrap-server", address, "--topic", topic, "--group", group),
        *("--max-messages", str(RECORDS), "--timeout-ms", "30000"),
    )
    assert len(said.stdout.splitlines()) == RECORDS


def confluent(address: str, topic: str, group: str) -> None:
    consumer = ShareConsumer({"bootstrap.servers": address, "group.id": group})
    consumer.subscribe([topic])
    seen = 0
    deadline = time.monotonic() + DEADLINE_S
    while seen < RECORDS and time.monotonic() < deadline:
        seen += sum(1 for message in consumer.poll(timeout=0.5) if not message.error())
    consumer.poll(timeout=0.5)  # says that the last ones are accepted
    consumer.close()
    assert seen >= RECORDS


def ours(address: str, topic: str, group: str) -> None:
    with sync.ShareConsumer(address, group=group, topics=[topic]) as consumer:
        for number, _ in enumerate(consumer, 1):
            if number == RECORDS:
                break


@pytest.mark.release("4.3.1")
@pytest.mark.parametrize("client", [java, confluent, ours], ids=lambda one: one.__name__)
def test_all_is_decoded_and_clean_runs_are_left_in_peace(
    kafka: Cluster,
    fresh_topic: FreshTopic,
    fresh_group: FreshGroup,
    tmp_path: Path,
    client: Callable[[str, str, str], None],
) -> None:
    topic, group = fresh_topic(2), fresh_group()
    loopback = tmp_path / "loopback.pcap"
    port = int(kafka.bootstrap.rpartition(":")[2])
    with tracing(kafka.bootstrap, tmp_path) as trace:
        with captured(loopback, port) if may_capture() else nullcontext():
            produce(trace.address, topic)
            client(trace.address, topic, group)
        assert trace.end() == 0
    assert trace.errors == ""
    assert trace.summary["undecoded"] == 0
    assert trace.of_type("finding") == []
    (member,) = [one for one in trace.summary["members"] if one["group"] == group]
    assert member["acquired"] >= RECORDS
    assert (
        member["acknowledged"]["accept"] >= RECORDS - 1
    )  # ours asks for the next before it accepts the last
    assert all_exchanges_are_through_the_proxy(trace, kafka)
    assert the_capture_says_the_same(trace.capture, trace)["exchanges"] == trace.summary["exchanges"]
    # What libpcap saw of the broker, brokers' own requests among it.
    if may_capture():
        assert the_capture_says_the_same(loopback, trace)["exchanges"] > trace.summary["exchanges"]


@pytest.mark.release("4.1.2", "4.4.0")
def test_other_releases_give_no_cause_for_blame_either(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup, tmp_path: Path
) -> None:
    """One client after the other."""
    clients = [java, ours] if kafka.release == "4.1.2" else [java, confluent, ours]
    topic = fresh_topic(2)
    with tracing(kafka.bootstrap, tmp_path) as trace:
        produce(trace.address, topic)
        for client in clients:
            client(trace.address, topic, fresh_group())
        assert trace.end() == 0
    assert trace.errors == ""
    assert (trace.summary["undecoded"], trace.of_type("finding")) == (0, [])
    assert len([one for one in trace.summary["members"] if one["acquired"] >= RECORDS]) == len(clients)


def produce(address: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": address})
    for number in range(RECORDS):
        producer.produce(topic, b"record %d" % number, partition=number % 2)
    assert producer.flush(DEADLINE_S) == 0


def all_exchanges_are_through_the_proxy(trace: Trace, kafka: Cluster) -> bool:
    """Bootstrap and the broker's own address are different listeners; sessions are opened on the latter only."""
    shared = {one["server"] for one in trace.of_type("exchange") if one["api"] == "ShareFetch"}
    return shared == {kafka.bootstrap}


def the_capture_says_the_same(capture: Path, trace: Trace) -> Any:
    """Gives its summary."""
    done = kshare("pcap", str(capture), "--json")
    assert (done.code, done.err) == (0, "")
    (summary,) = [one for one in map(json.loads, done.out.splitlines()) if one["type"] == "summary"]
    assert (summary["undecoded"], summary["findings"]) == (0, [])
    kept = ("member", "fetches", "acquired", "acknowledged")
    assert [{key: one[key] for key in kept} for one in summary["members"]] == [
        {key: one[key] for key in kept} for one in trace.summary["members"]
    ]
    return summary
