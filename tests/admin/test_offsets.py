"""Offsets of share groups: reading, changing, resetting and deleting them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from kshare import AdminClient, BrokerError, ConfigError, ShareConsumer
from kshare.admin import offsets
from kshare.admin.log_offsets import log_offsets
from kshare.admin.results import OffsetReset, PartitionOffset, TopicPartition
from kshare.admin.routing import Router
from kshare.testing import Broker

pytestmark = pytest.mark.anyio


@pytest.mark.lengthy
async def test_start_offset_and_lag_follow_settled_records(kshare_broker: Broker, admin: AdminClient) -> None:
    kshare_broker.create_topic("orders", 2)
    kshare_broker.produce("orders", [b"a", b"b", b"c"])
    kshare_broker.produce("orders", [b"d"], partition=1)
    await admin.alter_group_config("shippers", {"share.auto.offset.reset": "earliest"})
    async with ShareConsumer(
        kshare_broker.bootstrap, group="shippers", topics=["orders"], acknowledgement="explicit"
    ) as consumer:
        taken = 0
        with anyio.fail_after(20):
            async for record in consumer:
                if record.partition == 0:
                    record.accept()
                taken += 1
                if taken == 4:
                    break
        await consumer.commit()
    first, second = await admin.share_group_offsets("shippers")
    assert (first.topic, first.partition, first.lag) == ("orders", 0, 0)
    assert first.start_offset is not None
    assert (second.partition, second.start_offset, second.lag) == (1, 0, 1)
    (only,) = await admin.share_group_offsets("shippers", {"orders": [1]})
    assert only == second


@pytest.mark.lengthy
async def test_offsets_are_reset(kshare_broker: Broker, admin: AdminClient) -> None:
    kshare_broker.create_topic("orders", 2)
    kshare_broker.produce("orders", [b"a", b"b", b"c"])
    await admin.alter_share_group_offsets("shippers", {("orders", 0): 2, ("orders", 1): 0})

    async def standing() -> list[int | None]:
        return [offset.start_offset for offset in await admin.share_group_offsets("shippers")]

    changes = await admin.reset_share_group_offsets("shippers", "earliest", dry_run=True)
    assert changes == [OffsetReset("orders", 0, 2, 0), OffsetReset("orders", 1, 0, 0)]
    assert await standing() == [2, 0]
    await admin.reset_share_group_offsets("shippers", "latest")
    assert await standing() == [3, 0]
    await admin.reset_share_group_offsets("shippers", 1, {"orders": [0]})
    assert await standing() == [1, 0]
    now = datetime.now(UTC)
    await admin.reset_share_group_offsets("shippers", now - timedelta(hours=1))
    assert await standing() == [0, 0]
    await admin.reset_share_group_offsets("shippers", now + timedelta(hours=1))
    assert await standing() == [3, 0]


async def test_what_is_written_during_a_reset_is_read(
    kshare_broker: Broker, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right after it is known that all records are older than the given time."""
    kshare_broker.create_topic("orders")
    kshare_broker.produce("orders", [b"a", b"b"])

    async def ask(router: Router, where: Collection[TopicPartition], time: int) -> dict[TopicPartition, int]:
        found = await log_offsets(router, where, time)
        if time >= 0:
            assert set(found.values()) == {-1}
            kshare_broker.produce("orders", [b"c"])
        return found

    monkeypatch.setattr(offsets, "log_offsets", ask)
    later = datetime.now(UTC) + timedelta(milliseconds=1)
    await admin.reset_share_group_offsets("shippers", later, {"orders": None})
    (standing,) = await admin.share_group_offsets("shippers")
    assert standing.start_offset == 2


@pytest.mark.lengthy
async def test_resets_start_from_the_offset_that_progress_shows(
    kshare_broker: Broker, admin: AdminClient
) -> None:
    """The coordinator's start offset stays behind until the next state is stored."""
    kshare_broker.create_topic("orders")
    kshare_broker.produce("orders", [b"a", b"b", b"c"])
    kshare_broker.produce("orders", [b"d"])
    await admin.alter_group_config("shippers", {"share.auto.offset.reset": "earliest"})
    with anyio.fail_after(20):
        async with ShareConsumer(
            kshare_broker.bootstrap, group="shippers", topics=["orders"], acknowledgement="explicit"
        ) as consumer:
            async for record in consumer:
                record.reject()
                await consumer.commit()
                if record.offset == 3:
                    break
    (reported,) = await admin.share_group_offsets("shippers")
    assert reported.start_offset is not None
    assert reported.start_offset < 4
    (progress,) = await admin.share_group_progress("shippers")
    (change,) = await admin.reset_share_group_offsets("shippers", "earliest")
    assert progress.start_offset == change.before == 4


async def test_offsets_of_a_new_group_can_be_reset(kshare_broker: Broker, admin: AdminClient) -> None:
    kshare_broker.create_topic("orders")
    kshare_broker.produce("orders", [b"a"])
    changes = await admin.reset_share_group_offsets("newcomers", "latest", {"orders": None})
    assert changes == [OffsetReset("orders", 0, None, 1)]
    (offset,) = await admin.share_group_offsets("newcomers")
    assert offset == PartitionOffset("orders", 0, 1, offset.leader_epoch, offset.lag)


@pytest.mark.lengthy
async def test_refused_resets_say_why(kshare_broker: Broker, admin: AdminClient) -> None:
    kshare_broker.create_topic("orders")
    for to, topics, message in (
        ("earliest", None, "group g has read no topic yet: name the topics"),
        ("earliest", {}, "no topics are given"),
        ("earliest", {"orders": [1]}, r"topic orders has no partition 1 \(it has 1 partition\)"),
        (7, {"orders": None}, r"orders\[0\] has offsets 0 to 0: 7 is out of range"),
        (datetime(2026, 1, 1), {"orders": None}, "has no time zone"),
        ("yesterday", {"orders": None}, 'reset to "earliest"'),
        (True, {"orders": None}, 'reset to "earliest"'),
    ):
        with pytest.raises(ConfigError, match=message):
            await admin.reset_share_group_offsets("g", to, topics)  # type: ignore[arg-type]
    with pytest.raises(BrokerError, match="topic absent: UNKNOWN_TOPIC_OR_PARTITION"):
        await admin.reset_share_group_offsets("g", "earliest", {"absent": None})
    assert await admin.list_groups() == []


@pytest.mark.lengthy
async def test_offsets_of_a_group_with_members_are_not_changed(
    kshare_broker: Broker, admin: AdminClient
) -> None:
    kshare_broker.create_topic("orders")
    async with ShareConsumer(kshare_broker.bootstrap, group="shippers", topics=["orders"]):
        with anyio.fail_after(20):
            while not await admin.share_group_offsets("shippers"):
                await anyio.sleep(0.05)
        with pytest.raises(BrokerError, match="NON_EMPTY_GROUP"):
            await admin.reset_share_group_offsets("shippers", "earliest")
        with pytest.raises(BrokerError, match="NON_EMPTY_GROUP"):
            await admin.delete_share_group_offsets("shippers", "orders")


async def test_offsets_are_deleted(kshare_broker: Broker, admin: AdminClient) -> None:
    kshare_broker.create_topic("orders")
    await admin.alter_share_group_offsets("shippers", {("orders", 0): 0})
    await admin.delete_share_group_offsets("shippers", "orders")
    assert await admin.share_group_offsets("shippers") == []
    with pytest.raises(BrokerError, match="in orders: UNKNOWN_TOPIC_OR_PARTITION"):
        await admin.delete_share_group_offsets("shippers", ["orders"])


@pytest.mark.lengthy
async def test_reset_follows_leaders_that_move(kshare_cluster: Broker) -> None:
    kshare_cluster.create_topic("orders", 3)
    for partition in range(3):
        kshare_cluster.produce("orders", [b"a"], partition=partition)
    async with AdminClient(kshare_cluster.bootstrap) as admin:
        for node in (1, 2, 3):
            for partition in range(3):
                kshare_cluster.move_leader("orders", partition, node)
            changes = await admin.reset_share_group_offsets("g", "latest", {"orders": None})
            assert [change.after for change in changes] == [1, 1, 1]
