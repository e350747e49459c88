"""`kshare lag` shows the same numbers as `kshare groups describe`, on real brokers of every release."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kafka import KafkaProducer

from kshare import sync
from kshare.cli.app import run
from tests.integration.conftest import FreshGroup, FreshTopic
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka]


def test_lag_counts_records_that_are_not_accepted(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, group = fresh_topic(2), fresh_group()
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    for _ in range(8):
        producer.send(topic, b"x", partition=0)
    producer.close()

    def shown(*words: str) -> Any:
        assert run([*words, "--json", "-b", kafka.bootstrap]) == 0
        return json.loads(capsys.readouterr().out)

    with sync.ShareConsumer(
        kafka.bootstrap, group=group, topics=[topic], acknowledgement="explicit"
    ) as consumer:
        for number, record in enumerate(consumer, 1):
            record.accept()
            if number == 3:
                break
        consumer.commit()
        (found,) = shown("lag", "-g", group, "-t", topic)
    assert (found["group"], found["state"], found["members"], found["lag"]) == (group, "Stable", 1, 5)
    first = found["partitions"][0]
    assert (first["topic"], first["partition"], first["start_offset"], first["end_offset"]) == (
        topic,
        0,
        3,
        8,
    )
    (described,) = shown("groups", "describe", group)
    assert [row["lag"] for row in found["partitions"]] == [row["lag"] for row in described["offsets"]]
    assert group in [row["group"] for row in shown("lag", "-t", topic)]


def test_the_error_names_a_group_that_does_not_exist(
    kafka: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lag", "-g", "nobody-at-all", "-b", kafka.bootstrap]) == 1
    assert "no group 'nobody-at-all'" in capsys.readouterr().err
