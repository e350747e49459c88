"""Topic records, and share-partition states in the state topic, as an AdminClient reads them."""

from __future__ import annotations

import anyio
import pytest

from kshare import AdminClient, BrokerError, ShareConsumer
from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets
from kshare.admin.log_reading import LogReader
from kshare.admin.routing import Router
from kshare.admin.share_states import StateLog, home_of, share_states
from kshare.protocol.error_codes import ErrorCode
from kshare.state.share_records import TOPIC, SharePartitionKey, StateRange, StoredState
from kshare.testing import Broker

pytestmark = pytest.mark.anyio


def router_of(admin: AdminClient) -> Router:
    return admin._router()


async def settle(broker: Broker, count: int) -> None:
    """Fetch `count` records: accept even offsets, reject odd multiples of three, release the others."""
    async with ShareConsumer(
        broker.bootstrap, group="shippers", topics=["orders"], acknowledgement="explicit"
    ) as consumer:
        taken = 0
        with anyio.fail_after(30):
            async for record in consumer:
                if record.offset % 2 == 0:
                    record.accept()
                elif record.offset % 3 == 0:
                    record.reject()
                else:
                    record.release()
                taken += 1
                if taken == count:
                    break


@pytest.mark.lengthy
async def test_states_match_the_acknowledgements(kshare_broker: Broker, admin: AdminClient) -> None:
    kshare_broker.create_topic("orders", 1)
    kshare_broker.produce("orders", [b"%d" % number for number in range(8)])
    await admin.alter_group_config("shippers", {"share.auto.offset.reset": "earliest"})
    (topic,) = await admin.list_topics()
    where = SharePartitionKey("shippers", topic.topic_id, 0)
    assert await share_states(router_of(admin), [where]) == {}
    await settle(kshare_broker, 8)
    state = (await share_states(router_of(admin), [where]))[where]
    outcomes = {
        offset: range_.state
        for range_ in state.covering(1, 8)
        for offset in range(range_.first, range_.last + 1)
    }
    assert outcomes == {
        1: StoredState.AVAILABLE,
        2: StoredState.ACKNOWLEDGED,
        3: StoredState.ARCHIVED,
        4: StoredState.ACKNOWLEDGED,
        5: StoredState.AVAILABLE,
        6: StoredState.ACKNOWLEDGED,
        7: StoredState.AVAILABLE,
        8: StoredState.AVAILABLE,
    }
    assert list(state.open_ranges(9))[-1] == StateRange(8, 8, StoredState.AVAILABLE, 0)


@pytest.mark.lengthy
async def test_state_log_is_followed_across_pruned_records(kshare_broker: Broker, admin: AdminClient) -> None:
    log = StateLog(router_of(admin))
    assert await log.partition_count() == 0
    kshare_broker.create_topic("orders", 1)
    kshare_broker.produce("orders", [b"%d" % number for number in range(20)])
    await admin.alter_group_config("shippers", {"share.auto.offset.reset": "earliest"})
    (topic,) = await admin.list_topics()
    where = SharePartitionKey("shippers", topic.topic_id, 0)
    await settle(kshare_broker, 4)
    home = home_of(where, await log.partition_count())
    first = [entry.offset async for entry in log.entries([home])]
    assert first[0] == 0
    await settle(kshare_broker, 4)
    second = [entry.offset async for entry in log.entries([home])]
    assert second[0] == first[-1] + 1
    assert [entry async for entry in log.entries([home])] == []
    for _ in range(2):
        await settle(kshare_broker, 2)

    def cut() -> None:
        stored = kshare_broker.state.cluster.topics[TOPIC].partitions[home].log
        stored.delete_before(stored.high_watermark - 1)

    kshare_broker.call(cut)
    (last,) = [entry.offset async for entry in log.entries([home])]
    assert last > second[-1] + 1
    assert log.states == await share_states(router_of(admin), [where])


@pytest.mark.lengthy
@pytest.mark.kshare_broker(settings={"share.coordinator.snapshot.update.records.per.snapshot": "3"})
async def test_what_was_pruned_unread_is_counted(kshare_broker: Broker, admin: AdminClient) -> None:
    """As far as the following snapshots tell: every record that was settled, though not every release."""
    kshare_broker.create_topic("orders", 1)
    kshare_broker.produce("orders", [b"%d" % number for number in range(20)])
    await admin.alter_group_config("shippers", {"share.auto.offset.reset": "earliest"})
    (topic,) = await admin.list_topics()
    where = SharePartitionKey("shippers", topic.topic_id, 0)
    log = StateLog(router_of(admin))
    await settle(kshare_broker, 1)
    await log.read([where])
    home = home_of(where, await log.partition_count())
    read_until = (await log_offsets(router_of(admin), [(TOPIC, home)], LATEST))[TOPIC, home]
    for _ in range(4):
        await settle(kshare_broker, 4)
    assert (await log_offsets(router_of(admin), [(TOPIC, home)], EARLIEST))[TOPIC, home] > read_until
    await log.read([where])
    state, trail = log.states[where], log.trails.of[where]
    settled = sum(range_.size for range_ in state.covering(state.start_offset, 19) if range_.is_settled)
    assert trail.accepted + sum(trail.archived.values()) == state.start_offset + settled
    assert trail.deliveries == trail.accepted + trail.released + sum(trail.archived.values())


@pytest.mark.kshare_broker(settings={"share.coordinator.snapshot.update.records.per.snapshot": "3"})
async def test_share_partitions_that_were_deleted_unread_are_gone(
    kshare_broker: Broker, admin: AdminClient
) -> None:
    """Their tombstone was pruned, so nothing says so but that no snapshot is left."""
    for topic in ("orders", "returns"):
        kshare_broker.create_topic(topic, 1)
    await admin.alter_share_group_offsets("shippers", {("orders", 0): 0, ("returns", 0): 0})
    log = StateLog(router_of(admin))
    await log.read_all()
    known = set(log.states)
    assert len(known) == 2
    await admin.delete_share_group_offsets("shippers", ["returns"])

    def cut() -> None:
        for partition in kshare_broker.state.cluster.topics[TOPIC].partitions:
            partition.log.delete_before(partition.log.high_watermark)

    await admin.alter_share_group_offsets("shippers", {("orders", 0): 0})
    kshare_broker.call(cut)
    await admin.alter_share_group_offsets("shippers", {("orders", 0): 0})
    await log.read_all()
    (left,) = log.states
    assert {left} == {where for where in known if where in log.trails.of}


@pytest.mark.lengthy
async def test_log_is_read_while_its_leader_moves(kshare_cluster: Broker) -> None:
    kshare_cluster.create_topic("orders", 1)
    for start in range(0, 30, 10):
        kshare_cluster.produce("orders", [b"%d" % number for number in range(start, start + 10)])
    async with AdminClient(kshare_cluster.bootstrap, request_timeout=30) as admin:
        (topic,) = await admin.list_topics()
        reader = LogReader(router_of(admin))
        offsets = []
        async for batch in reader.batches((topic.topic_id, 0), 5, 30):
            offsets += [record.offset for record in batch]
            node = 1 + batch.base_offset // 10 % 3
            kshare_cluster.move_leader("orders", 0, node)
        assert offsets == list(range(30))
        with pytest.raises(BrokerError) as outside:
            await reader.fetch((topic.topic_id, 0), 31)
        assert outside.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        with pytest.raises(BrokerError, match=r"orders\[1\]") as nowhere:
            await reader.fetch((topic.topic_id, 1), 0)
        assert nowhere.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        kshare_cluster.delete_topic("orders")
        with pytest.raises(BrokerError) as gone:
            await reader.fetch((topic.topic_id, 0), 0)
        assert gone.value.code == ErrorCode.UNKNOWN_TOPIC_ID
