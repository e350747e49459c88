"""A share-partition at its leader: when locks expire, and how rarely the leader searches for the next expiry."""

from __future__ import annotations

import pytest

from kshare.broker.clock import ManualClock
from kshare.broker.cluster import Cluster, Node
from kshare.broker.configs import Configs
from kshare.broker.counters import Counters
from kshare.broker.share_state.coordinator import ShareCoordinator
from kshare.broker.shares.share_partition import AckRange, SharePartition
from kshare.broker.shares.share_partition_leader import ShareContext, SharePartitionLeader
from kshare.protocol.acknowledge_types import AcknowledgeType
from tests.broker.batches import batch

GROUP, MEMBER = "g", "member"
LOCK_MS = 30_000


class Stage:
    """One share-partition, and a clock that only moves on request."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        configs, counters = Configs(), Counters()
        cluster = Cluster(configs, "cluster", lambda: bytes(16))
        cluster.add_node(Node(1))
        states = ShareCoordinator(cluster, configs, self.clock, counters)
        self.partition = cluster.create_topic("t", 1).partitions[0]
        states.initialize((GROUP, self.partition.topic.id, 0), 0, 0)
        parts = ShareContext(self.clock, configs, cluster, states, counters=counters)
        self.leader = SharePartitionLeader(GROUP, self.partition, parts, lambda leader: None)

    def append(self) -> None:
        self.partition.log.append(batch(), now=self.clock.now(), leader_epoch=0)

    def acquire(self) -> list[tuple[int, int, int]]:
        found = self.leader.acquire(MEMBER, self.leader.look(1 << 20, 500).batches, 500, 500, False)
        return [(each.first, each.last, each.count) for each in found.acquired]

    def accept(self, offset: int) -> None:
        self.leader.acknowledge(MEMBER, [AckRange(offset, offset, (AcknowledgeType.ACCEPT,))])


def test_lock_expires_on_time_after_an_earlier_one_was_settled() -> None:
    stage = Stage()
    stage.append()
    assert stage.acquire() == [(0, 0, 1)]
    stage.clock.advance(10_000)
    stage.append()
    assert stage.acquire() == [(1, 1, 1)]
    stage.accept(0)
    stage.clock.advance(LOCK_MS - 1)
    assert not stage.leader.has_available()
    stage.clock.advance(1)
    assert stage.acquire() == [(1, 1, 2)]


def test_next_expiry_is_not_searched_for_each_record(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    looks: list[SharePartition] = []
    look = SharePartition.next_expiry

    def counted(self: SharePartition) -> int | None:
        looks.append(self)
        return look(self)

    monkeypatch.setattr(SharePartition, "next_expiry", counted)
    for offset in range(100):
        stage.append()
        assert stage.acquire() == [(offset, offset, 1)]
        stage.accept(offset)
    assert len(looks) <= 1
    stage.clock.advance(LOCK_MS)
    assert not stage.leader.has_available()


def test_records_behind_a_long_gap_are_acquired() -> None:
    stage = Stage()
    for _ in range(1000):
        stage.append()
    log = stage.partition.log
    log.replace_batches([each for each in log.batches_from(0) if each.base_offset == 999])
    assert stage.acquire() == [(999, 999, 1)]
    assert stage.acquire() == []


def test_records_that_compaction_has_removed_are_not_waited_for() -> None:
    stage = Stage()
    for _ in range(3):
        stage.append()
    assert stage.acquire() == [(0, 2, 1)]
    stage.accept(1)
    stage.clock.advance(LOCK_MS)
    log = stage.partition.log
    log.replace_batches([each for each in log.batches_from(0) if each.base_offset == 2])
    assert stage.acquire() == [(2, 2, 2)]
    assert stage.leader.shared.start_offset == 2
