"""`kshare consume` and `produce` compared with Kafka's own console tools: same options, same output."""

from __future__ import annotations

import json

import pytest

from tests.cli.running import kshare
from tests.integration.conftest import FreshGroup, FreshTopic
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.java]

_THEIRS = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
_LINES = (
    {"value": "plain"},
    {"value": "grün", "key": "k", "headers": [["trace", "1"], ["trace", None], ["b", ""]]},
    {"value": None, "key": ""},
    {"value": {"base64": "AAAAAAAAAEE="}, "key": "k", "timestamp": 5},
    {"value": "8 bytes."},
)
_PARTS = ("timestamp", "partition", "offset", "delivery", "headers", "key", "value")
_ALL = [*(f"print.{part}=true" for part in _PARTS), "key.separator= | ", "null.literal=-"]
_LONG = ["value.deserializer=org.apache.kafka.common.serialization.LongDeserializer"]


def said(properties: list[str]) -> list[str]:
    return [word for setting in properties for word in ("--formatter-property", setting)]


def test_the_same_options_print_the_same_lines(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic = fresh_topic()
    lines = "\n".join(map(json.dumps, _LINES))
    done = kshare(
        "produce", "-t", topic, "-b", kafka.bootstrap, "--input", "json", "--json", stdin=lines.encode()
    )
    assert json.loads(done.out)["records"] == len(_LINES)
    words = ["--topic", topic, *said(_ALL), "--max-messages", str(len(_LINES))]
    theirs = kafka.run_tool(_THEIRS, *words, "--group", fresh_group()).stdout
    ours = kshare("consume", *words, "--group", fresh_group(), "--bootstrap-server", kafka.bootstrap)
    assert ours.code == 0
    assert ours.out == theirs
    assert ours.err == f"kshare: {len(_LINES)} records shown: {len(_LINES)} accepted\n"


def test_unreadable_records_are_rejected_alike(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic = fresh_topic()
    lines = "\n".join(json.dumps(line) for line in (_LINES[0], _LINES[3], _LINES[4], _LINES[1]))
    assert (
        kshare("produce", "-t", topic, "-b", kafka.bootstrap, "--input", "json", stdin=lines.encode()).code
        == 0
    )
    groups = fresh_group(), fresh_group()
    words = ["--topic", topic, *said(_LONG), "--reject-message-on-error", "--max-messages", "4"]
    theirs = kafka.run_tool(_THEIRS, *words, "--group", groups[0]).stdout
    ours = kshare("consume", *words, "--group", groups[1], "--bootstrap-server", kafka.bootstrap)
    assert ours.code == 0
    assert ours.out == theirs == f"65\n{int.from_bytes(b'8 bytes.', 'big')}\n"
    states = [json.loads(kshare("state", group, "-b", kafka.bootstrap, "--json").out) for group in groups]
    assert states[0][0]["lag"] == states[1][0]["lag"] == 0
