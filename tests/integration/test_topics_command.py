"""`kshare topics` with real brokers, and `kshare consume` of a new topic and of a misspelt one."""

from __future__ import annotations

import json
import uuid

import pytest

from kshare.cli.app import run
from tests.cli.running import Done, kshare
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka]


def test_topics_are_created_listed_and_deleted(kafka: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    def ours(*words: str) -> Done:
        code = run(["topics", *words, "--bootstrap-server", kafka.bootstrap])
        return Done(code, *capsys.readouterr())

    def listed() -> dict[str, int]:
        return {load["topic"]: load["partitions"] for load in json.loads(ours("list", "--json").out)}

    name = f"topics-{uuid.uuid4().hex}"
    words = ["--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=3600000"]
    assert ours("create", name, *words) == Done(0, f"created {name}\n")
    assert listed()[name] == 3
    done = ours("create", name)
    assert (done.code, done.out) == (1, "")
    assert f"creating topic {name}: TOPIC_ALREADY_EXISTS" in done.err
    where = ["--bootstrap-server", kafka.bootstrap]
    done = kshare("consume", "-t", name, "-g", name, "--timeout-ms", "500", *where)
    assert (done.code, done.out) == (0, ""), done
    misspelt = f"{name}x"
    done = kshare("consume", "-t", misspelt, "-g", name, "--timeout-ms", "500", *where)
    assert (done.code, done.out) == (1, "")
    assert f"there is no topic {misspelt}; did you mean '{name}'?" in done.err
    assert ours("delete", name) == Done(0, f"deleted {name}\n")
    assert name not in listed()
    assert ours("delete", name).code == 1


@pytest.mark.release("4.4.0")
def test_a_dead_letter_topic_without_the_brokers_prefix_is_refused(
    kafka: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    group, setting = f"group-{uuid.uuid4().hex}", "errors.deadletterqueue.topic.name"
    words = ["groups", "config", "set", group, "--bootstrap-server", kafka.bootstrap]
    assert run([*words, f"{setting}=grave"]) == 1
    assert "begin with 'dlq.'" in capsys.readouterr().err
    assert run([*words, f"{setting}=dlq.grave"]) == 0
