"""Groups: listed, described and deleted by an AdminClient."""

from __future__ import annotations

import anyio
import pytest

from kshare import AdminClient, BrokerError, ConfigError, ShareConsumer
from kshare.testing import Broker

pytestmark = pytest.mark.anyio


async def assigned(admin: AdminClient, group: str) -> None:
    with anyio.fail_after(20):
        while not any(member.assignment for member in (await admin.describe_share_group(group)).members):
            await anyio.sleep(0.05)


@pytest.mark.lengthy
async def test_a_group_with_a_member_is_listed_and_described(
    kshare_broker: Broker, admin: AdminClient
) -> None:
    kshare_broker.create_topic("orders", 2)
    async with ShareConsumer(
        kshare_broker.bootstrap, group="shippers", topics=["orders"], client_id="truck", rack="r1"
    ):
        with anyio.fail_after(20):
            while not await admin.list_groups(states=["Stable"]):
                await anyio.sleep(0.05)
        await assigned(admin, "shippers")
        (listed,) = await admin.list_groups()
        assert (listed.group, listed.type.lower(), listed.state) == ("shippers", "share", "Stable")
        found = await admin.describe_share_group("shippers")
        assert (found.group, found.state, found.assignor) == ("shippers", "Stable", "simple")
        assert found.epoch == found.assignment_epoch > 0
        (member,) = found.members
        assert (member.client_id, member.rack, member.topics) == ("truck", "r1", ("orders",))
        assert member.host == "127.0.0.1", "without Java's slash"
        assert member.assignment == (("orders", 0), ("orders", 1))
        with pytest.raises(BrokerError, match="group shippers: NON_EMPTY_GROUP"):
            await admin.delete_share_group("shippers")
    assert (await admin.describe_share_group("shippers")).members == ()
    assert await admin.list_groups(states=["Stable"]) == []
    await admin.delete_share_group("shippers")
    assert await admin.list_groups(types=()) == []


async def test_nonexistent_group_raises_group_id_not_found(admin: AdminClient) -> None:
    for ask in (admin.describe_share_group, admin.delete_share_group):
        with pytest.raises(BrokerError, match="group nobody: GROUP_ID_NOT_FOUND"):
            await ask("nobody")
    with pytest.raises(ConfigError, match="non-empty"):
        await admin.describe_share_group("")


async def test_groups_of_all_brokers_are_listed_and_found(kshare_cluster: Broker) -> None:
    """Each of the three brokers coordinates some of the groups."""
    kshare_cluster.create_topic("orders")
    names = [f"group-{number}" for number in range(9)]
    async with AdminClient(kshare_cluster.bootstrap) as admin:
        for name in names:
            await admin.alter_share_group_offsets(name, {("orders", 0): 0})
        assert [group.group for group in await admin.list_groups()] == names
        nodes = {(await admin.describe_share_group(name)).coordinator for name in names}
        assert len(nodes) > 1


async def test_new_coordinator_is_found_when_the_old_one_stops(kshare_cluster: Broker) -> None:
    kshare_cluster.create_topic("orders")
    async with AdminClient(kshare_cluster.bootstrap, request_timeout=30) as admin:
        await admin.alter_share_group_offsets("shippers", {("orders", 0): 0})
        first = (await admin.describe_share_group("shippers")).coordinator
        kshare_cluster.stop_node(first)
        second = (await admin.describe_share_group("shippers")).coordinator
        assert second != first
