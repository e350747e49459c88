"""Unsettled records that retention is about to remove, by age and by size."""

from __future__ import annotations

import re
import time

import pytest

from kshare import sync
from kshare.doctor.check_result import CheckLevel
from kshare.doctor.retention import retention
from kshare.errors import NotAuthorized
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from kshare.testing import Broker
from tests.doctor.conftest import RunCheck

GROUP = "shippers"


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders", 2)
    kshare_broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
    return kshare_broker


def write(broker: Broker, age_s: float = 0, partition: int = 0, count: int = 10) -> None:
    with sync.Producer(broker.bootstrap) as producer:
        for _ in range(count):
            at = int((time.time() - age_s) * 1000)
            producer.enqueue("orders", b"x" * 1000, partition=partition, timestamp=at)


def settle(broker: Broker, partitions: int = 1) -> None:
    """Settle the first record of each partition."""
    with sync.ShareConsumer(
        broker.bootstrap, group=GROUP, topics=["orders"], acknowledgement="explicit"
    ) as consumer:
        settled: set[int] = set()
        for batch in consumer.batches():
            for record in batch:
                if record.offset == 0:
                    record.accept()
                    settled.add(record.partition)
            if len(settled) == partitions:
                break
        consumer.commit()


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("retention_s", "level", "when"),
    [
        (10_000, None, ""),
        (1_300, CheckLevel.WARNING, "they may be removed in 5 min"),
        (1_240, CheckLevel.PROBLEM, "they may be removed in 4 min"),
        (1_080, CheckLevel.PROBLEM, "they may be removed in "),
        (-0.001, None, ""),
    ],
)
def test_old_records(
    broker: Broker, check: RunCheck, retention_s: float, level: CheckLevel | None, when: str
) -> None:
    write(broker, age_s=1_000)
    settle(broker)
    broker.set_topic_config("orders", {"retention.ms": str(int(retention_s * 1000))})
    found = check(retention, GROUP)
    assert [finding.level for finding in found] == ([level] if level else [])
    if found:
        assert (
            "orders[0]: the first of 9 unsettled records, offset 1, is 17 min old, and the topic keeps"
            in found[0].text
        )
        assert when in found[0].text
        assert f"--add-config retention.ms={int(2000 * retention_s)}" in found[0].todo[-1]


@pytest.mark.lengthy
def test_one_finding_for_a_topic(broker: Broker, check: RunCheck) -> None:
    write(broker, age_s=1_000)
    write(broker, age_s=1_100, partition=1)
    settle(broker, partitions=2)
    broker.set_topic_config("orders", {"retention.ms": "1300000"})
    (found,) = check(retention, GROUP)
    assert "orders[1]: the first of 9 unsettled records" in found.text
    assert "(1 more partition of the topic is close to it)" in found.text


@pytest.mark.lengthy
def test_compacted_topic_has_no_retention(broker: Broker, check: RunCheck) -> None:
    write(broker, age_s=1_000)
    settle(broker)
    broker.set_topic_config("orders", {"retention.ms": "900000", "cleanup.policy": "compact"})
    (found,) = check(retention, GROUP)
    assert found.level is CheckLevel.OK
    assert (
        found.text == "orders is compacted: a newer record with the same key replaces records, settled or not"
    )


@pytest.mark.lengthy
def test_large_topic(broker: Broker, check: RunCheck) -> None:
    write(broker, count=100)
    settle(broker)
    broker.set_topic_config("orders", {"retention.bytes": "130000"})
    (found,) = check(retention, GROUP)
    assert found.level is CheckLevel.WARNING
    # How many batches there are, each with a header, depends on how fast they were written.
    assert re.search(
        r"has about 10[012] kB behind it, and the topic keeps 130 kB of each partition \(retention.bytes\)",
        found.text,
    )
    assert "they are removed when more is written" in found.text
    assert "--add-config retention.bytes=260000" in found.todo[-1]


@pytest.mark.lengthy
def test_size_needs_a_permission(broker: Broker, check: RunCheck) -> None:
    write(broker)
    settle(broker)
    broker.set_topic_config("orders", {"retention.bytes": "120000"})

    def refuse(response: DescribeLogDirsResponse) -> None:
        response.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    broker.faults.add(DescribeLogDirsRequest, times=None, change=refuse)
    with pytest.raises(NotAuthorized):
        check(retention, GROUP)


@pytest.mark.lengthy
def test_nothing_waits(broker: Broker, check: RunCheck) -> None:
    """Then nobody needs the records."""
    write(broker, age_s=1_000, count=1)
    settle(broker)
    broker.set_topic_config("orders", {"retention.ms": "900000"})
    assert check(retention, GROUP) == []
