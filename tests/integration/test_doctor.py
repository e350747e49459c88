"""`kshare doctor` on real brokers: healthy ones, releases with known defects, and pinned windows."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from kshare import sync
from tests.cli.running import kshare
from tests.integration.conftest import FreshGroup, FreshTopic
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka]


def test_a_healthy_cluster(kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup) -> None:
    topic, group = fresh_topic(), fresh_group()
    done = kshare("doctor", "-b", kafka.bootstrap, "--group", group, "--topic", topic, "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    said = [finding for finding in found if finding["level"] != "ok"]
    if kafka.release.startswith("4.1."):
        (known,) = said
        assert (known["level"], known["check"]) == ("warning", "share groups")
        assert "Kafka 4.1: 4.1.x and 4.2.0 have a known deadlock in share groups" in known["text"]
    else:
        assert said == []
    checks = {
        "bootstrap",
        "listeners",
        "share groups",
        "internal topics",
        "clock",
        "rights",
        f"group {group}",
    }
    noted = {"dead letters"}  # the group has no dead-letter topic, which only Kafka 4.4 offers
    expected = checks | noted if kafka.release.startswith("4.4.") else checks
    assert {finding["check"] for finding in found} == expected


def records(kafka: Cluster, topic: str, count: int) -> None:
    with sync.Producer(kafka.bootstrap) as producer:
        for _ in range(count):
            producer.enqueue(topic, b"x" * 20)


def health(kafka: Cluster, group: str) -> list[dict[str, Any]]:
    """What isn't ok about the group. Asks until there is something."""
    deadline = time.monotonic() + 60
    while True:
        done = kshare("doctor", "-b", kafka.bootstrap, "--group", group, "--json")
        found = [
            load
            for load in json.loads(done.out)
            if load["check"] == f"group {group}" and load["level"] != "ok"
        ]
        if found:
            return found
        assert time.monotonic() < deadline


@pytest.mark.parametrize("is_settling", [True, False])
def test_pinned_window(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup, is_settling: bool
) -> None:
    """A member holds the first record, and settles the others of its window, or none of them."""
    topic, group = fresh_topic(), fresh_group()
    records(kafka, topic, 6000)
    with sync.ShareConsumer(
        kafka.bootstrap,
        group=group,
        topics=[topic],
        acknowledgement="explicit",
        client_id="truck-7",
        max_records=5000,
    ) as consumer:
        seen = 0
        for batch in consumer.batches():
            for record in batch:
                seen += 1
                if is_settling and record.offset:
                    record.accept()
            if seen >= 2000:
                break
        consumer.commit()
        (found,) = health(kafka, group)
        told = (
            {
                command: kshare(*command.split(), "-b", kafka.bootstrap).out
                for command in (f"groups describe {group}", f"state {group}", f"top --once --group {group}")
            }
            if is_settling
            else {}
        )
    assert "truck-7 (" in found["text"]
    assert found["todo"]
    if is_settling:
        assert found["level"] == "problem"
        assert f"{topic}[0]: in-flight window full" in found["text"]
        for out in told.values():
            assert "Offset 0 has been the first unsettled one for at least" in out
            assert "is held by truck-7 (" in out
    else:
        assert found["level"] == "warning"
        assert "no record was ever settled or released" in found["text"]
        assert "an in-flight window full of locks" in found["text"]
