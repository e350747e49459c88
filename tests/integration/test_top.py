"""`kshare top` on real brokers of every release: lag, records that wait for redelivery, age of the oldest record."""

from __future__ import annotations

import json

import pytest
from kafka import KafkaProducer

from kshare import sync
from kshare.cli.app import run
from tests.integration.conftest import FreshGroup, FreshTopic
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka]


def test_the_numbers_match_what_was_acknowledged(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, group = fresh_topic(1), fresh_group()
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    for number in range(8):
        producer.send(topic, b"%d" % number)
    producer.close()
    with sync.ShareConsumer(
        kafka.bootstrap, group=group, topics=[topic], acknowledgement="explicit", client_id="truck"
    ) as consumer:
        seen = 0
        for batch in consumer.batches():
            for record in batch:
                if record.delivery_count == 1:
                    record.release() if record.offset == 5 else record.accept()
                seen += 1
            if seen == 9:
                break
        consumer.commit()
        words = ["--group", group, "--once", "--interval", "0.1", "--json", "-b", kafka.bootstrap]
        assert run(["top", *words]) == 0
        found = json.loads(capsys.readouterr().out)
    (row,) = found["partitions"]
    assert (row["topic"], row["start"], row["lag"], row["redelivered"]) == (topic, 5, 1, 1)
    assert row["most_deliveries"] == 1
    assert row["oldest_seconds"] >= 0
    assert [row["state"] for row in found["groups"]] == ["Stable"]
    assert [row["client"] for row in found["members"]] == ["truck"]
