"""`kshare doctor` reports no problems of healthy real brokers, except for a release with a known deadlock."""

from __future__ import annotations

import json

import pytest

from tests.cli.running import kshare
from tests.integration.conftest import FreshGroup, FreshTopic
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka]


def test_a_healthy_cluster(kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup) -> None:
    topic, group = fresh_topic(), fresh_group()
    done = kshare("doctor", "-b", kafka.bootstrap, "--group", group, "--topic", topic, "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    said = [one for one in found if one["level"] != "ok"]
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
    assert {one["check"] for one in found} == checks
