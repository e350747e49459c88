"""Two groups in the same state: `kshare groups` changes one, Kafka's own tool the other.

Both must print the same, and have the same result. Kafka's tool has no --to-offset, so that isn't compared.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from kafka import KafkaProducer

from kshare import sync
from tests.cli.running import kshare
from tests.integration.conftest import FreshGroup, FreshTopic
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.java]

_TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
_RECORDS = 5
"""How many records each partition has at `_HOUR`, and how many at `_NOW`."""
_NOW = int(time.time())
_HOUR = _NOW - 3600


class Twins:
    """Two groups that have read all of the same two topics. How much of that is persisted may differ."""

    def __init__(self, kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup) -> None:
        self.kafka = kafka
        self.topics = fresh_topic(2), fresh_topic(1)
        self.mine, self.theirs = fresh_group(), fresh_group()
        _fill(kafka, self.topics)
        for group in (self.mine, self.theirs):
            _read_all(kafka, group, self.topics)

    def ours(self, action: str, *words: str) -> Any:
        """Run our command on our group. Returns its JSON output."""
        done = kshare("groups", action, self.mine, *words, "-b", self.kafka.bootstrap, "--json")
        assert (done.code, done.err) == (0, "")
        return json.loads(done.out)

    def other(self, *words: str) -> list[list[str]]:
        """Run Kafka's tool on the other group. Returns the rows of its output."""
        done = self.kafka.run_tool(_TOOL, *words, "--group", self.theirs)
        rows = [line.split() for line in done.stdout.splitlines() if line.strip()]
        heads = [index for index, row in enumerate(rows) if row[0] in ("GROUP", "TOPIC")]
        return rows[heads[0] + 1 :] if heads else rows

    def offsets(self) -> list[Any]:
        """The current offsets of both groups, which must be the same."""
        mine, theirs = (_described(self.kafka, group) for group in (self.mine, self.theirs))
        assert mine == theirs
        return mine

    def reset(self, *words: str) -> list[Any]:
        """Reset the offsets of both groups. Returns the new ones."""
        reset = self.ours("reset-offsets", *words, "--execute")
        assert reset["executed"] is True
        everywhere = () if "--topic" in words else ("--all-topics",)
        rows = self.other("--reset-offsets", *words, *everywhere, "--execute")
        after = [[row["topic"], str(row["partition"]), str(row["after"])] for row in reset["offsets"]]
        assert sorted(row[1:] for row in rows) == sorted(after)
        return [offset[2] for offset in self.offsets()]


@pytest.fixture
def twins(kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup) -> Twins:
    return Twins(kafka, fresh_topic, fresh_group)


@pytest.mark.release("4.3.1", "4.4.0")
def test_offsets_are_reset_alike(twins: Twins) -> None:
    first, second = twins.topics
    assert twins.reset("--to-latest") == [2 * _RECORDS] * 3
    assert twins.reset("--to-earliest", "--topic", f"{first}:1") == [2 * _RECORDS, 0, 2 * _RECORDS]
    between = datetime.fromtimestamp(_HOUR + 60, UTC).strftime("%Y-%m-%dT%H:%M:%S.000")
    words = ("--to-datetime", between, "--topic", first, "--topic", f"{second}:0")
    assert twins.reset(*words) == [_RECORDS] * 3
    # With a time zone, and later than all records: moves to the end.
    assert twins.reset("--to-datetime", "2099-01-31T12:00:00.000+01:00") == [2 * _RECORDS] * 3


@pytest.mark.release("4.1.2")
def test_reset_offsets_fails_on_a_release_that_ignores_it(twins: Twins) -> None:
    """Kafka 4.1 accepts the request but changes nothing. Its tool then shows offsets as if they had been set."""
    before = [_described(twins.kafka, group) for group in (twins.mine, twins.theirs)]
    words = ("--to-earliest", "--topic", twins.topics[0])
    done = kshare("groups", "reset-offsets", twins.mine, *words, "--execute", "-b", twins.kafka.bootstrap)
    assert (done.code, done.out) == (1, "")
    assert "setting offsets needs Kafka 4.2" in done.err
    assert len(twins.other("--reset-offsets", *words, "--execute")) == 2
    assert [_described(twins.kafka, group) for group in (twins.mine, twins.theirs)] == before


def test_offsets_and_groups_are_deleted_alike(twins: Twins) -> None:
    first, second = twins.topics
    done = twins.ours("delete-offsets", "--topic", second)
    assert done["topics"] == [second]
    assert twins.other("--delete-offsets", "--topic", second) == [[second, "Successful"]]
    for group in (twins.mine, twins.theirs):
        assert [row[0] for row in _described(twins.kafka, group)] == [first, first]
    assert twins.ours("delete") == {"deleted": [twins.mine]}
    twins.other("--delete")
    listed = kshare("groups", "list", "--all-types", "-b", twins.kafka.bootstrap, "--json").out
    assert not {twins.mine, twins.theirs} & {load["group"] for load in json.loads(listed)}


def _fill(kafka: Cluster, topics: tuple[str, str]) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    for seconds in (_HOUR, _NOW):
        for number in range(_RECORDS):
            for topic, partition in ((topics[0], 0), (topics[0], 1), (topics[1], 0)):
                producer.send(topic, b"%d" % number, partition=partition, timestamp_ms=seconds * 1000)
        producer.flush()  # so that none of the older ones is in a batch with newer ones
    producer.close()


def _read_all(kafka: Cluster, group: str, topics: tuple[str, str]) -> None:
    with sync.ShareConsumer(
        kafka.bootstrap, group=group, topics=topics, acknowledgement="explicit"
    ) as consumer:
        for number, record in enumerate(consumer, 1):
            record.accept()
            if number == 3 * 2 * _RECORDS:
                break
        consumer.commit()


def _described(kafka: Cluster, group: str) -> list[Any]:
    done = kshare("groups", "describe", group, "-b", kafka.bootstrap, "--json")
    assert (done.code, done.err) == (0, "")
    (found,) = json.loads(done.out)
    return [
        (row["topic"], row["partition"], row["start_offset"], row["lag"], row["leader_epoch"])
        for row in found["offsets"]
    ]
