"""Why a lease has fewer records than requested: the sentences, and where the limit comes from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kshare.spark.executor.connections import close_connections, connections
from kshare.spark.lock_limit import LockLimit, lock_limit, shortage
from kshare.spark.options import ReadOptions
from kshare.spark.ranges import RecordRange
from kshare.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as one:
        yield one
        close_connections()


def ranges(*counts: int) -> list[RecordRange]:
    topic_id = "00000000-0000-0000-0000-000000000001"
    return [RecordRange("orders", topic_id, number, 0, count - 1) for number, count in enumerate(counts)]


BEGIN = (
    "the lease has 4,150 of 50,000 records: group packing locks at most 2,000 records of a partition at once, and 2 of "
    "3 partitions have reached that. For more, "
)
END = ", use more partitions, or several leases one after the other"


@pytest.mark.parametrize(
    ("limit", "remedy"),
    [
        (
            LockLimit(2000, 4000),
            "run `kshare groups config set packing share.partition.max.record.locks=4000` (the brokers' "
            "group.share.max.partition.max.record.locks allows up to 4,000)",
        ),
        (
            LockLimit(2000),
            "run `kshare groups config set packing share.partition.max.record.locks=...`",
        ),
        (
            LockLimit(2000, 2000),
            "raise the brokers' group.share.max.partition.max.record.locks (now 2,000) and then the group's "
            "share.partition.max.record.locks",
        ),
        (
            LockLimit(2000, is_of_brokers=True),
            "raise the brokers' group.share.partition.max.record.locks",
        ),
    ],
)
def test_a_shortage_is_explained(limit: LockLimit, remedy: str) -> None:
    assert shortage(ranges(2_100, 2_000, 50), 50_000, "packing", limit) == f"{BEGIN}{remedy}{END}"


def test_a_lack_of_records_is_no_shortage() -> None:
    assert shortage(ranges(1_999, 50), 50_000, "packing", LockLimit(2000)) is None
    assert shortage(ranges(2_000), 2_000, "packing", LockLimit(2000)) is None


def test_the_limit_of_a_group(broker: Broker) -> None:
    given = {"kafka.bootstrap.servers": broker.bootstrap, "group": "limited", "subscribe": "orders"}
    shared = connections(ReadOptions.parse(given, is_streaming=False).net_settings())
    broker.set_group_config("limited", {"share.partition.max.record.locks": "300"})
    assert shared.submit(lock_limit, shared.router, "limited").result() == LockLimit(300, 4000)
