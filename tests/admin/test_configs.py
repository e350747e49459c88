"""Configuration of groups and topics; creating, listing and deleting topics."""

from __future__ import annotations

import pytest

from kshare import AdminClient, BrokerError, ConfigError

pytestmark = pytest.mark.anyio

LOCK = "share.record.lock.duration.ms"


async def test_group_config_is_read_set_and_reset_to_default(admin: AdminClient) -> None:
    before = {entry.name: entry for entry in await admin.group_config("shippers")}
    assert before["share.auto.offset.reset"].value == "latest"
    assert before[LOCK].source == "default"
    assert (before[LOCK].lowest, before[LOCK].highest) == ("1000", "60000")
    await admin.alter_group_config("shippers", {LOCK: "20000", "share.auto.offset.reset": "earliest"})
    after = {entry.name: entry for entry in await admin.group_config("shippers")}
    assert (after[LOCK].value, after[LOCK].source) == ("20000", "group")
    await admin.alter_group_config("shippers", {LOCK: None})
    undone = {entry.name: entry for entry in await admin.group_config("shippers")}
    assert undone[LOCK] == before[LOCK]
    assert undone["share.auto.offset.reset"].value == "earliest"


async def test_refused_changes_change_nothing(admin: AdminClient) -> None:
    before = await admin.group_config("shippers")
    for changes in ({"share.no.such": "1"}, {LOCK: "soon"}, {LOCK: "20000", "share.auto.offset.reset": "x"}):
        with pytest.raises(BrokerError, match="changing the configuration of group shippers: INVALID_"):
            await admin.alter_group_config("shippers", changes)
    with pytest.raises(ConfigError, match="no changes are given"):
        await admin.alter_group_config("shippers", {})
    await admin.alter_group_config("shippers", {LOCK: "20000"}, dry_run=True)
    assert await admin.group_config("shippers") == before


async def test_topics_are_created_configured_listed_and_deleted(admin: AdminClient) -> None:
    await admin.create_topic("orders", 3, config={"retention.ms": "60000"})
    await admin.create_topic("returns")
    listed = {topic.topic: topic for topic in await admin.list_topics()}
    assert sorted(listed) == ["orders", "returns"]
    assert (listed["orders"].partitions, listed["orders"].replication_factor) == (3, 1)
    assert not listed["orders"].is_internal
    with pytest.raises(BrokerError, match="creating topic orders: TOPIC_ALREADY_EXISTS"):
        await admin.create_topic("orders")
    with pytest.raises(ConfigError, match="partitions must be 1 or more"):
        await admin.create_topic("more", 0)
    await admin.alter_topic_config("orders", {"retention.ms": "70000"})
    found = {entry.name: entry for entry in await admin.topic_config("orders")}
    assert (found["retention.ms"].value, found["retention.ms"].source) == ("70000", "topic")
    await admin.delete_topic("orders")
    assert [topic.topic for topic in await admin.list_topics()] == ["returns"]
    with pytest.raises(BrokerError, match="deleting topic orders: UNKNOWN_TOPIC_OR_PARTITION"):
        await admin.delete_topic("orders")
