"""The share coordinator: stores the state of share-partitions in __share_group_state and reads it back.

The key of a state determines its partition of that topic. A partition is loaded at the first request for it, which is
all that has to be done after a restart. Its old records are deleted when all its share-partitions have newer snapshots.
Share-partitions without writes get a snapshot from time to time, so that they don't prevent that. The cluster decides
which node is the coordinator; all nodes share one memory, as they share the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from kshare.broker.clock import Clock
from kshare.broker.cluster import SHARE_KEY, SHARE_STATE_TOPIC, Cluster, Node, Partition
from kshare.broker.configs import Configs
from kshare.broker.counters import Counters
from kshare.broker.request_error import RequestError
from kshare.broker.share_state.share_state import ShareState, StateUpdate
from kshare.broker.share_state.state_records import (
    Key,
    replay,
    snapshot_batch,
    tombstone_batch,
    update_batch,
)
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.json_form import uuid_text

_COLD_INTERVAL = "share.coordinator.cold.partition.snapshot.interval.ms"
_UPDATES_PER_SNAPSHOT = "share.coordinator.snapshot.update.records.per.snapshot"


class _Shard:
    """One partition of the state topic."""

    def __init__(self, home: Partition) -> None:
        self.home = home
        self.states: dict[Key, ShareState] = {}
        self.snapshots: dict[Key, int] = {}
        """The offset of each state's last snapshot. Older records of that state aren't needed."""
        self.looked_at = home.log.end_offset
        """The log's end offset at the last search for cold states."""
        for stored in home.log.batches_from(home.log.start_offset):
            for record in stored.decode():
                key = replay(self.states, record)
                if key is None:
                    continue
                if key not in self.states:
                    self.snapshots.pop(key, None)
                elif not self.states[key].updates:
                    self.snapshots[key] = record.offset

    def append(self, batch: bytearray, now: int) -> int:
        appended = self.home.log.append(
            batch, now=now, leader_epoch=self.home.leader_epoch, from_client=False
        )
        return appended.base_offset

    def cold(self) -> list[Key]:
        """States whose snapshot is older than the last search. Empty if pruning wouldn't delete any records."""
        log, before = self.home.log, self.looked_at
        self.looked_at = log.end_offset
        if log.end_offset - log.start_offset <= len(self.states):
            return []
        return [key for key, offset in self.snapshots.items() if offset < before]

    def prune(self) -> None:
        oldest = min(self.snapshots.values(), default=self.home.log.end_offset)
        if oldest > self.home.log.start_offset:
            self.home.log.delete_before(oldest)


class ShareCoordinator:
    """States by group, topic id and partition. If something is impossible, methods raise RequestError."""

    def __init__(self, cluster: Cluster, configs: Configs, clock: Clock, counters: Counters) -> None:
        self._cluster = cluster
        self._configs = configs
        self._clock = clock
        self._counters = counters
        self._shards: dict[Partition, _Shard] = {}
        self._look_for_cold_later()

    def check_node(self, key: Key, node: Node) -> None:
        """Raises RequestError if this node isn't the coordinator of the share-partition."""
        if self._cluster.coordinator(SHARE_KEY, _text(key)) is not node:
            raise RequestError(ErrorCode.NOT_COORDINATOR)

    def initialize(self, key: Key, state_epoch: int, start: int) -> None:
        self._check_hosted(key)
        shard = self._shard(key)
        old = shard.states.get(key, ShareState())
        old.check_state(state_epoch)
        now = self._clock.now()
        self._snapshot(shard, key, old.initialized(state_epoch, start, now))

    def read(self, key: Key, leader_epoch: int) -> ShareState:
        shard = self._shard(key)
        state = self._known(shard, key)
        state.check_leader(leader_epoch)
        if leader_epoch > state.fence:
            state.fence = state.leader_epoch = leader_epoch
            self._snapshot(shard, key, state)
        return state

    def write(self, key: Key, state_update: StateUpdate) -> None:
        shard = self._shard(key)
        state = self._known(shard, key)
        state.check_leader(state_update.leader_epoch)
        state.check_state(state_update.state_epoch)
        now = self._clock.now()
        new = state.after(state_update, now)
        with self._counters.state_writes.measured():
            if new.updates >= self._configs.broker_number(_UPDATES_PER_SNAPSHOT):
                self._snapshot(shard, key, new)
            else:
                shard.append(update_batch(key, state, state_update, now), now)
                shard.states[key] = new

    def summary(self, key: Key) -> ShareState:
        """The state of a share-partition, which needn't be initialized."""
        self._check_hosted(key)
        return self._shard(key).states.get(key, ShareState())

    def delete(self, key: Key) -> None:
        """Delete a state. Does nothing if there is none."""
        self._check_hosted(key)
        self.forget(key)

    def forget(self, key: Key) -> None:
        """Like `delete`, for a topic that was deleted."""
        shard = self._shard(key)
        if shard.states.pop(key, None) is not None:
            now = self._clock.now()
            shard.append(tombstone_batch(key, now), now)
            del shard.snapshots[key]

    def lose_since(self, home: Partition, time: int) -> set[Key]:
        """Lose the updates since then: the coordinator has stopped before it had flushed them. Snapshots are kept.

        Returns the share-partitions whose state goes back.
        """
        shard = self._shard_at(home)
        flushed = max(shard.snapshots.values(), default=home.log.end_offset) + 1
        lost = [
            stored
            for stored in home.log.batches_from(flushed)
            if stored.base_offset >= flushed and stored.max_timestamp >= time
        ]
        if not lost:
            return set()
        home.log.lose_from(lost[0].base_offset)
        del self._shards[home]
        keys = (replay({}, record) for stored in lost for record in stored.decode())
        return {key for key in keys if key is not None}

    @property
    def loaded(self) -> int:
        """The number of partitions of the state topic that are loaded."""
        return len(self._shards)

    def known(self) -> Iterator[tuple[Key, ShareState]]:
        """All states, to restore the groups after a restart."""
        topic = self._cluster.find(SHARE_STATE_TOPIC)
        for home in topic.partitions if topic is not None else []:
            yield from self._shard_at(home).states.items()

    def _known(self, shard: _Shard, key: Key) -> ShareState:
        if key[2] < 0:
            raise RequestError(ErrorCode.INVALID_REQUEST, "the partition number must not be negative")
        state = shard.states.get(key)
        if state is None:
            raise RequestError(
                ErrorCode.INVALID_REQUEST, "the state of this share-partition is not initialized"
            )
        return state

    def _check_hosted(self, key: Key) -> None:
        if key[2] < 0:
            raise RequestError(ErrorCode.INVALID_REQUEST, "the partition number must not be negative")
        topic = self._cluster.find(key[1])
        if topic is None or key[2] >= len(topic.partitions):
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _shard(self, key: Key) -> _Shard:
        home = self._cluster.coordinating_partition(SHARE_KEY, _text(key))
        if home.leader < 0:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._shard_at(home)

    def _shard_at(self, home: Partition) -> _Shard:
        shard = self._shards.get(home)
        if shard is None:
            with self._counters.state_loads.measured():
                shard = self._shards[home] = _Shard(home)
        return shard

    def _look_for_cold_later(self) -> None:
        self._clock.after(self._configs.broker_number(_COLD_INTERVAL), self._snapshot_cold)

    def _snapshot_cold(self) -> None:
        self._look_for_cold_later()
        for shard in self._shards.values():
            if shard.home.leader >= 0:
                for key in shard.cold():
                    self._snapshot(shard, key, shard.states[key])

    def _snapshot(self, shard: _Shard, key: Key, state: ShareState) -> None:
        now = self._clock.now()
        state = state.as_snapshot()
        shard.states[key] = state
        shard.snapshots[key] = shard.append(snapshot_batch(key, state, now), now)
        shard.prune()


@lru_cache(maxsize=4096)
def _text(key: Key) -> str:
    group, topic_id, partition = key
    return f"{group}:{uuid_text(topic_id)}:{partition}"
