"""`kshare doctor` finds nothing wrong with real brokers that are well."""

from __future__ import annotations

import json

import pytest

from tests.cli.running import kshare
from tests.integration.conftest import FreshGroup, FreshTopic
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka]


def test_a_cluster_that_is_well(kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup) -> None:
    topic, group = fresh_topic(), fresh_group()
    done = kshare("doctor", "-b", kafka.bootstrap, "--group", group, "--topic", topic, "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert [one for one in found if one["level"] != "ok"] == []
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
