"""`kshare state`, DescribeShareGroupOffsets and the test's own records agree, after all acknowledgement types."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kafka import KafkaProducer

from kshare import sync
from kshare.testing import Broker
from tests.cli.running import kshare
from tests.integration.conftest import FreshGroup, FreshTopic
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.java]

_RECORDS = 60
_READ = 45
_WORDS = ("accept", "accept", "reject", "release", "accept")


def test_the_stored_state_matches_the_acknowledgements(
    kafka: Cluster | Broker, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, group = fresh_topic(2), fresh_group()
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    for number in range(2 * _RECORDS):
        producer.send(topic, b"%d" % number, partition=number % 2)
    producer.close()
    partition_acks = settle(kafka, topic, group)
    (described,) = ask(kafka, "groups", "describe", group)
    offsets = {row["partition"]: row for row in described["offsets"]}
    forms = ask(kafka, "state", group, "--topic", topic)
    assert [form["partition"] for form in forms] == [0, 1]
    for form in forms:
        check(form, offsets[form["partition"]], partition_acks[form["partition"]])


def settle(kafka: Cluster | Broker, topic: str, group: str) -> dict[int, dict[int, str]]:
    """Acknowledge. Returns types by partition and offset. Some released records are accepted later, some are not."""
    partition_acks: dict[int, dict[int, str]] = {0: {}, 1: {}}
    options: dict[str, Any] = {"acknowledgement": "explicit", "acquire": "records", "max_records": 40}
    can_renew = not kafka.release.startswith("4.1")
    with sync.ShareConsumer(kafka.bootstrap, group=group, topics=[topic], **options) as consumer:
        last = []
        for record in consumer:
            if record.offset % 9 == 4 and can_renew:
                record.renew()
                assert set(consumer.commit().values()) == {None}
            word = _WORDS[record.offset % 5] if not record.redelivered else "accept"
            partition_acks[record.partition][record.offset] = word
            if word == "release" and record.offset > _READ // 2:
                last.append(record)  # it would be redelivered at once
            else:
                getattr(record, word)()
            if sum(map(len, partition_acks.values())) >= 2 * _READ:
                break
        for record in last:
            record.release()
        assert set(consumer.commit().values()) == {None}
    return partition_acks


def check(form: dict[str, Any], described: dict[str, Any], words: dict[int, str]) -> None:
    states = {"accept": "acknowledged", "reject": "archived", "release": "available"}
    stored = {offset: span for span in form["ranges"] for offset in range(span["first"], span["last"] + 1)}
    assert form["end_offset"] == _RECORDS
    assert form["start_offset"] == described["start_offset"]
    assert sorted(stored) == list(range(form["start_offset"], _RECORDS))
    for offset, word in words.items():
        if offset < form["start_offset"]:
            assert word in ("accept", "reject"), offset
        else:
            assert stored[offset]["state"] == states[word], offset
            assert stored[offset]["deliveries"] >= 1
    unread = [offset for offset in stored if offset not in words]
    assert {stored[offset]["state"] for offset in unread} <= {"available"}
    opened = [offset for offset, span in stored.items() if span["state"] == "available"]
    assert form["lag"] == len(opened)
    # Kafka 4.1 doesn't report the lag.
    assert described["lag"] in (None, form["lag"])


def ask(kafka: Cluster | Broker, *words: str) -> Any:
    done = kshare(*words, "--bootstrap-server", kafka.bootstrap, "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)
