"""Real clients with a real broker through `kshare trace`: everything is decoded, and there are no findings.

The clients are Kafka's own (Java), confluent-kafka (C) and ours. One release is tested in detail, others briefly.
confluent-kafka 2.16 isn't tested on 4.1.2, which refuses half of its member ids: the linter reports that.
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
    consumer.poll(timeout=0.5)  # acknowledges the last ones
    consumer.close()
    assert seen >= RECORDS


def ours(address: str, topic: str, group: str) -> None:
    with sync.ShareConsumer(address, group=group, topics=[topic]) as consumer:
        for number, _ in enumerate(consumer, 1):
            if number == RECORDS:
                break


@pytest.mark.release("4.3.1")
@pytest.mark.parametrize("client", [java, confluent, ours], ids=lambda client: client.__name__)
def test_everything_is_decoded_without_findings(
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
    (member,) = [member for member in trace.summary["members"] if member["group"] == group]
    assert member["acquired"] >= RECORDS
    assert (
        member["acknowledged"]["accept"] >= RECORDS - 1
    )  # our loop doesn't ask for a next record, which would accept the last one
    assert all_exchanges_are_through_the_proxy(trace, kafka)
    assert the_capture_says_the_same(trace.capture, trace)["exchanges"] == trace.summary["exchanges"]
    # libpcap also captured the broker's own requests.
    if may_capture():
        assert the_capture_says_the_same(loopback, trace)["exchanges"] > trace.summary["exchanges"]


@pytest.mark.release("4.1.2", "4.4.0")
def test_other_releases_cause_no_findings_either(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup, tmp_path: Path
) -> None:
    """All clients, one after the other."""
    clients = [java, ours] if kafka.release == "4.1.2" else [java, confluent, ours]
    topic = fresh_topic(2)
    with tracing(kafka.bootstrap, tmp_path) as trace:
        produce(trace.address, topic)
        for client in clients:
            client(trace.address, topic, fresh_group())
        assert trace.end() == 0
    assert trace.errors == ""
    assert (trace.summary["undecoded"], trace.of_type("finding")) == (0, [])
    complete = [member for member in trace.summary["members"] if member["acquired"] >= RECORDS]
    assert len(complete) == len(clients)


def produce(address: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": address})
    for number in range(RECORDS):
        producer.produce(topic, b"record %d" % number, partition=number % 2)
    assert producer.flush(DEADLINE_S) == 0


def all_exchanges_are_through_the_proxy(trace: Trace, kafka: Cluster) -> bool:
    """The proxy has one listener for bootstrap, another for the broker. Sessions are only opened on the latter."""
    shared = {exchange["server"] for exchange in trace.of_type("exchange") if exchange["api"] == "ShareFetch"}
    return shared == {kafka.bootstrap}


def the_capture_says_the_same(capture: Path, trace: Trace) -> Any:
    """Compare with the trace. Returns the summary of the capture."""
    done = kshare("pcap", str(capture), "--json")
    assert (done.code, done.err) == (0, "")
    (summary,) = [line for line in map(json.loads, done.out.splitlines()) if line["type"] == "summary"]
    assert (summary["undecoded"], summary["findings"]) == (0, [])
    kept = ("member", "fetches", "acquired", "acknowledged")
    assert [{key: member[key] for key in kept} for member in summary["members"]] == [
        {key: member[key] for key in kept} for member in trace.summary["members"]
    ]
    return summary
