"""`kshare dlq` with real brokers: dead letters written by a 4.4 broker, and by a producer on older releases."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer

from kshare import sync
from kshare.cli.app import run
from tests.cli.running import DEADLINE
from tests.helpers.rejecting import reject
from tests.integration.conftest import FreshGroup, FreshTopic
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka]

COUNT = 5
Ours = Callable[..., Any]
ORIGIN = ("topic", "partition", "offset", "group")
_WRITING = "4.4.0"
"""The first release that writes dead letters."""


def test_dead_letters_are_redriven(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup, ours: Ours
) -> None:
    topic, group = fresh_topic(2), fresh_group()
    grave = f"dlq.{topic}"
    own = kafka.release == _WRITING
    kafka.create_topic(grave, 2, settings={"errors.deadletterqueue.group.enable": "true"} if own else {})
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    for number in range(COUNT):
        producer.send(topic, b"%d" % number, key=b"k", headers=[("own", b"h")], partition=1)
    producer.flush()
    if own:
        kafka.set_group_config(group, {"errors.deadletterqueue.topic.name": grave})
    reject(kafka.bootstrap, group, topic, COUNT)
    if not own:
        for number in range(COUNT):
            said = {"topic": topic, "partition": "1", "offset": str(number), "group": group}
            headers = [(f"__dlq.errors.{name}", text.encode()) for name, text in said.items()]
            producer.send(grave, b"%d" % number, key=b"k", headers=headers, partition=1)
    producer.close()
    shown: list[dict[str, Any]] = []
    deadline = time.monotonic() + DEADLINE
    while len(shown) < COUNT:  # brokers write dead letters after they have confirmed the rejection
        assert time.monotonic() < deadline, shown
        shown = ours("show", grave)
    assert [letter["source"]["offset"] for letter in shown] == list(range(COUNT))
    assert {letter["group"] for letter in shown} == {group}
    assert len(ours("redrive", grave, "--dry-run")) == COUNT
    done = ours("redrive", grave, "--max", "2")
    assert (done["redriven"], done["targets"]) == (2, {topic: 2})
    if own:
        assert counts(ours, grave) == (COUNT - 2, 2)
    assert [our["settled"] for our in ours("show", grave)].count(True) == 2
    assert len(ours("redrive", grave, "--dry-run")) == COUNT - 2
    done = ours("redrive", grave)
    assert (done["redriven"], done["is_complete"]) == (COUNT - 2, True)
    records = read(kafka, topic, 2 * COUNT)
    assert sorted(record.value for record in records[COUNT:]) == [b"%d" % number for number in range(COUNT)]
    assert {(record.partition, record.key, tuple(record.headers)) for record in records} == {
        (1, b"k", (("own", b"h"),))
    }
    assert ours("show", topic) == [], "the source topic has no dead letters"
    assert ours("redrive", grave)["redriven"] == 0
    assert ours("drop", grave, "--all", "--group", f"{group}-again")["dropped"] == COUNT
    if own:
        assert counts(ours, grave) == (0, COUNT)


def test_skipped_letters_are_moved_before_they_would_be_archived(
    kafka: Cluster, fresh_topic: FreshTopic, ours: Ours
) -> None:
    grave = fresh_topic(1)
    counts_releases = kafka.release != "4.1.2"
    if counts_releases:
        kafka.set_group_config(f"kshare-dlq-{grave}", {"share.delivery.count.limit": "5"})
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    for number in range(COUNT):
        producer.send(grave, b"%d" % number, headers=[("__dlq.errors.group", b"g")])
    producer.close()
    moved = sum(ours("redrive", grave, "--from-group", "other")["moved"] for _ in range(5))
    assert moved >= (COUNT if counts_releases else 0)
    found = [our for our in ours("show", grave) if not our["settled"]]
    assert sorted(letter["value"] for letter in found) == [str(number) for number in range(COUNT)]
    assert not any(letter["given_up"] for letter in found)
    assert ours("drop", grave, "--all")["dropped"] == COUNT


def test_others_are_redriven_once_beside_records_that_are_refused(
    kafka: Cluster, fresh_topic: FreshTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    """One is too large, and one has no key: brokers refuse the batch because of it.

    They never were in the topic, so it is named.
    """
    grave = fresh_topic(1)
    topic, group, maker = f"compacted-{grave}", f"users-of-{grave}", f"makers-of-{grave}"
    kafka.create_topic(topic, 1, settings={"cleanup.policy": "compact", "max.message.bytes": "2000"})
    headers = [
        (f"__dlq.errors.{name}", text)
        for name, text in zip(ORIGIN, (topic.encode(), b"0", b"9", maker.encode()), strict=True)
    ]
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    for key, value in ((b"a", b"1"), (None, b"2"), (b"b", b"3" * 3000), (b"c", b"4")):
        producer.send(grave, value, key=key, headers=headers)
    producer.close()

    def redrive(*words: str) -> tuple[int, Any]:
        where = ("--to", topic, "--bootstrap-server", kafka.bootstrap)
        code = run(["dlq", "redrive", grave, *words, *where, "--json"])
        return code, json.loads(capsys.readouterr().out)

    with (
        sync.ShareConsumer(kafka.bootstrap, group=maker, topics=[topic]),
        sync.ShareConsumer(kafka.bootstrap, group=group, topics=[topic]),
    ):
        deadline = time.monotonic() + DEADLINE
        while redrive("--dry-run")[1][0]["other_groups"] != [group]:  # they haven't joined yet
            assert time.monotonic() < deadline
    code, done = redrive()
    assert (code, done["redriven"]) == (1, 2)
    reasons = [letter["reason"] for letter in done["left"]]
    assert "INVALID_RECORD" in reasons[0]
    assert f"raise max.message.bytes of topic {topic} to 3" in reasons[1]
    code, done = redrive()
    assert (code, done["redriven"], len(done["left"])) == (1, 0, 2)
    assert sorted(record.key for record in read(kafka, topic, 2)) == [b"a", b"c"]


def test_settings_of_a_group_in_use_are_not_changed(
    kafka: Cluster, fresh_topic: FreshTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = fresh_topic(1)
    group = f"users-of-{topic}"
    with sync.ShareConsumer(kafka.bootstrap, group=group, topics=[topic]):
        deadline = time.monotonic() + DEADLINE
        while group not in capsys.readouterr().out:  # it hasn't joined yet
            assert time.monotonic() < deadline
            run(["groups", "list", "--bootstrap-server", kafka.bootstrap])
        code = run(["dlq", "redrive", topic, "--group", group, "--bootstrap-server", kafka.bootstrap])
    assert code == 1
    assert "Its settings aren't changed" in capsys.readouterr().err


def read(kafka: Cluster, topic: str, count: int) -> list[Any]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=kafka.bootstrap,
        auto_offset_reset="earliest",
        group_id=None,
        consumer_timeout_ms=int(1000 * DEADLINE),
    )
    records = list(itertools.islice(consumer, count))
    consumer.close()
    return records


def counts(ours: Ours, grave: str) -> tuple[int, int]:
    """The numbers of dead letters that are left and that were redriven."""
    (found,) = [our for our in ours("list") if our["topic"] == grave]
    return found["letters"], found["settled"]


@pytest.fixture
def ours(kafka: Cluster, capsys: pytest.CaptureFixture[str]) -> Ours:
    def call(*words: str) -> Any:
        code = run(["dlq", *words, "--bootstrap-server", kafka.bootstrap, "--json"])
        done = capsys.readouterr()
        assert (code, done.err) == (0, "")
        return json.loads(done.out)

    return call
