"""Exporter, console, `kshare groups` and Kafka's own tool agree; pinned windows of real brokers are exported."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable

import pytest
from kafka import KafkaProducer

from kshare import sync
from tests.cli.exporting import exporter, metrics
from tests.cli.running import DEADLINE
from tests.exporter.running_exporter import Labels, labels
from tests.helpers.consoles import eventually, running_console
from tests.integration.conftest import FreshGroup, FreshTopic
from tests.integration.producing import produce_in_turn
from tests.integration.share_group_tools import ours, shown, theirs
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka]

Metrics = dict[str, dict[Labels, float]]


def until(address: str, is_so: Callable[[Metrics], bool]) -> Metrics:
    deadline = time.monotonic() + DEADLINE
    while not is_so(found := metrics(address)):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found


def settle(kafka: Cluster, topic: str, group: str, count: int) -> None:
    """Accept the first records, and reject the last one of them."""
    with sync.ShareConsumer(
        kafka.bootstrap, group=group, topics=[topic], acknowledgement="explicit"
    ) as consumer:
        for number, record in enumerate(consumer, 1):
            record.accept() if number < count else record.reject()
            if number == count:
                break
        consumer.commit()


@pytest.mark.java
def test_exporter_groups_and_kafkas_tool_agree(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, group = fresh_topic(2), fresh_group()
    produce_in_turn(kafka, topic, 7)
    group_labels = labels(group=group)
    with exporter(kafka.bootstrap, "--group", group, "--interval", "1") as address:
        until(address, lambda found: found.get("kshare_exporter_up") == {labels(): 1})  # sees all from now on
        settle(kafka, topic, group, 4)
        until(address, lambda found: found.get("kshare_group_lag_records") == {group_labels: 3})
        found = until(address, lambda found: found["kshare_group_members"] == {group_labels: 0})
        exported = {
            number: (
                found["kshare_partition_start_offset"][where],
                found["kshare_partition_lag_records"][where],
            )
            for number in range(2)
            if (where := labels(group=group, topic=topic, partition=str(number)))
        }
        settle(kafka, topic, group, 3)
        counted = until(address, lambda found: found["kshare_group_lag_records"] == {group_labels: 0})
        # The group is new, so its first work counts, too.
        assert counted["kshare_group_accepted_total"] == {group_labels: 5}
        assert counted["kshare_group_archived_total"][labels(group=group, reason="rejected")] == 2
        assert counted["kshare_group_settled_total"] == {group_labels: 7}
    assert sum(lag for _, lag in exported.values()) == 3


@pytest.mark.java
def test_exporter_and_tools_agree_on_a_quiet_group(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, group = fresh_topic(2), fresh_group()
    produce_in_turn(kafka, topic, 7)
    settle(kafka, topic, group, 4)
    with exporter(kafka.bootstrap, "--group", group, "--interval", "1") as address:
        found = until(address, lambda found: "kshare_group_lag_records" in found)
    (described,) = ours(kafka, "describe", group)
    exported = [
        [
            *(group, topic, str(number)),
            str(int(found["kshare_partition_start_offset"][where])),
            str(int(found["kshare_partition_lag_records"][where])),
        ]
        for number in range(2)
        if (where := labels(group=group, topic=topic, partition=str(number)))
    ]
    offsets = [
        [group, row["topic"], *map(shown, (row["partition"], row["start_offset"], row["lag"]))]
        for row in described["offsets"]
    ]
    assert exported == offsets
    assert _on_page(kafka, group, topic) == exported
    rows = sorted(theirs(kafka, "--describe", "--group", group, "--offsets", "--verbose"))
    assert [row[:3] for row in rows] == [row[:3] for row in exported]
    # The coordinator doesn't know which records right behind its start offset are settled: ours may be higher.
    assert all(int(row[4]) <= int(own[3]) for row, own in zip(rows, exported, strict=True))
    if not kafka.release.startswith("4.1"):  # its brokers don't report the lag
        assert [row[5] for row in rows] == [row[4] for row in exported]


def _on_page(kafka: Cluster, group: str, topic: str) -> list[list[str]]:
    """What the web console shows."""
    with running_console(kafka.bootstrap) as console:
        _, _, page = eventually(
            lambda: console.request(f"/group?name={group}"), lambda response: response[0] == 200
        )
    found = re.findall(rf"{topic}\[(\d+)\] <small>start (\d+) · end \d+ · lag (\d+)", page)
    return [[group, topic, *numbers] for numbers in found]


def test_a_pinned_window_of_real_brokers(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    """It is named after two readings of five seconds. Before Kafka 4.3, groups have no limit of their own."""
    if kafka.release.startswith("4.1"):
        limit, group = 2000, fresh_group()
    else:
        limit = 100
        group = fresh_group(**{"share.partition.max.record.locks": str(limit)})
    topic = fresh_topic(1)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, linger_ms=0, batch_size=0)
    for _ in range(2 * limit):
        producer.send(topic, b"x")
    producer.close()
    with (
        exporter(kafka.bootstrap, "--group", group) as address,
        sync.ShareConsumer(
            kafka.bootstrap, group=group, topics=[topic], acknowledgement="explicit", max_records=limit
        ) as consumer,
    ):
        for seen, record in enumerate(consumer, 1):
            if record.offset:
                record.accept()
            if seen >= limit:
                break
        consumer.commit()
        found = until(
            address, lambda found: found.get("kshare_group_pinned_windows") == {labels(group=group): 1}
        )
        where = labels(group=group, topic=topic, partition="0")
        assert found["kshare_partition_window_full"] == {where: 1}
        assert found["kshare_partition_start_offset"] == {where: 0}


@pytest.mark.release("4.4.0")
def test_a_dead_letter_topic_that_does_not_exist_on_real_brokers(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, missing = fresh_topic(1), f"dlq.{uuid.uuid4().hex}"
    group = fresh_group(**{"errors.deadletterqueue.topic.name": missing})
    produce_in_turn(kafka, topic, 1)
    settle(kafka, topic, group, 1)

    def has_topic(value: int) -> bool:
        with exporter(kafka.bootstrap, "--group", group) as address:
            found = until(address, lambda found: "kshare_group_has_dead_letter_topic" in found)
        return found["kshare_group_has_dead_letter_topic"] == {labels(group=group): value}

    assert has_topic(0)
    kafka.create_topic(missing, 1, settings={"errors.deadletterqueue.group.enable": "true"})
    assert has_topic(1)
