"""AdminClient against real brokers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio
import pytest

from kshare import AdminClient, BrokerError, ShareConsumer, Unsupported
from kshare.admin.results import Member, OffsetReset
from tests.integration.conftest import FreshGroup, FreshTopic
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.anyio]

LOCK = "share.record.lock.duration.ms"


async def test_a_group_is_described_and_deleted(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, group = fresh_topic(2), fresh_group()
    async with AdminClient(kafka.bootstrap) as admin:
        async with ShareConsumer(kafka.bootstrap, group=group, topics=[topic], client_id="truck"):
            with anyio.fail_after(60):
                while not any(member.assignment for member in await _members(admin, group)):
                    await anyio.sleep(0.1)
            found = await admin.describe_share_group(group)
            (member,) = found.members
            assert (found.state, member.client_id, member.topics) == ("Stable", "truck", (topic,))
            assert member.assignment == ((topic, 0), (topic, 1))
            assert group in {row.group for row in await admin.list_groups(states=["Stable"])}
            with pytest.raises(BrokerError, match="NON_EMPTY_GROUP"):
                await admin.delete_share_group_offsets(group, topic)
        assert [offset.partition for offset in await admin.share_group_offsets(group)] == [0, 1]
        await admin.delete_share_group_offsets(group, topic)
        assert await admin.share_group_offsets(group) == []
        await admin.delete_share_group(group)
        assert group not in {row.group for row in await admin.list_groups(types=())}
        with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
            await admin.describe_share_group(group)


async def test_offsets_are_set(kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup) -> None:
    topic, group = fresh_topic(2), fresh_group()
    async with AdminClient(kafka.bootstrap) as admin:
        if kafka.release.startswith("4.1."):
            with pytest.raises(Unsupported, match=r"needs Kafka 4\.2"):
                await admin.reset_share_group_offsets(group, "latest", {topic: None})
            return
        changes = await admin.reset_share_group_offsets(group, "latest", {topic: None})
        assert [(change.partition, change.after) for change in changes] == [(0, 0), (1, 0)]
        again = await admin.reset_share_group_offsets(group, datetime.now(UTC) - timedelta(hours=1))
        assert again == [OffsetReset(topic, 0, 0, 0), OffsetReset(topic, 1, 0, 0)]
        assert [offset.start_offset for offset in await admin.share_group_offsets(group)] == [0, 0]
        async with ShareConsumer(kafka.bootstrap, group=group, topics=[topic]):
            with anyio.fail_after(60):
                while not await _members(admin, group):
                    await anyio.sleep(0.1)
            with pytest.raises(BrokerError, match="NON_EMPTY_GROUP"):
                await admin.reset_share_group_offsets(group, "latest")


async def test_settings_have_sources_and_bounds(kafka: Cluster, fresh_group: FreshGroup) -> None:
    group = fresh_group()
    async with AdminClient(kafka.bootstrap) as admin:
        await admin.alter_group_config(group, {LOCK: "20000"})
        await _until_source(admin, group, "group")
        found = {setting.name: setting for setting in await admin.group_config(group)}
        assert (found[LOCK].value, found[LOCK].source) == ("20000", "group")
        assert int(found[LOCK].lowest or 0) <= 20000 <= int(found[LOCK].highest or 0)
        with pytest.raises(BrokerError, match="INVALID_CONFIG"):
            await admin.alter_group_config(group, {"share.no.such": "1"})
        await admin.alter_group_config(group, {LOCK: None})
        await _until_source(admin, group, "default")


async def test_topics(kafka: Cluster, fresh_topic: FreshTopic) -> None:
    name = fresh_topic() + "-more"
    async with AdminClient(kafka.bootstrap) as admin:
        await admin.create_topic(name, 2, 1, {"retention.ms": "60000"})
        with anyio.fail_after(30):
            while name not in {topic.topic for topic in await admin.list_topics()}:
                await anyio.sleep(0.1)
        with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
            await admin.create_topic(name)
        config = {setting.name: setting for setting in await admin.topic_config(name)}
        assert (config["retention.ms"].value, config["retention.ms"].source) == ("60000", "topic")
        await admin.delete_topic(name)
        with anyio.fail_after(30):
            while name in {topic.topic for topic in await admin.list_topics()}:
                await anyio.sleep(0.1)


async def _members(admin: AdminClient, group: str) -> tuple[Member, ...]:
    try:
        return (await admin.describe_share_group(group)).members
    except BrokerError as error:
        assert error.name == "GROUP_ID_NOT_FOUND", "the only error expected before the first member joins"
        return ()


async def _until_source(admin: AdminClient, group: str, source: str) -> None:
    """Wait: a broker confirms a change of a setting before it has read it back from the metadata log."""
    with anyio.fail_after(30):
        while {setting.name: setting.source for setting in await admin.group_config(group)}[LOCK] != source:
            await anyio.sleep(0.1)
