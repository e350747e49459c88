"""Committed offsets of groups, and offsets pending until their transaction ends.

Doesn't decide who may commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kshare.broker.notifiers import Notifier

if TYPE_CHECKING:
    from kshare.protocol.messages.offset_commit_request import OffsetCommitRequestPartition
    from kshare.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequestPartition

TopicPartition = tuple[str, int]


@dataclass(slots=True, frozen=True)
class CommittedOffset:
    offset: int
    leader_epoch: int = -1
    metadata: str = ""

    @classmethod
    def of(cls, row: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition) -> CommittedOffset:
        return cls(row.committed_offset, row.committed_leader_epoch, row.committed_metadata or "")


class Offsets:
    """Offsets by group and topic partition. `on_change` is called for every change, with None for a deleted offset."""

    def __init__(self) -> None:
        self.on_change: Callable[[str, TopicPartition, CommittedOffset | None], None] | None = None
        self.pending_changed = Notifier()
        self._committed: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._pending: dict[int, dict[tuple[str, TopicPartition], CommittedOffset]] = {}

    def has(self, group: str) -> bool:
        return bool(self._committed.get(group))

    def groups(self) -> list[str]:
        return [group for group, offsets in self._committed.items() if offsets]

    def of(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        return dict(self._committed.get(group, {}))

    def commit(self, group: str, partition: TopicPartition, offset: CommittedOffset) -> None:
        self._committed.setdefault(group, {})[partition] = offset
        self._notify(group, partition, offset)

    def commit_later(
        self, producer_id: int, group: str, partition: TopicPartition, offset: CommittedOffset
    ) -> None:
        """Commit an offset when the producer's transaction is committed."""
        self._pending.setdefault(producer_id, {})[group, partition] = offset
        self.pending_changed.fire()

    def pending(self) -> Iterator[tuple[int, str, TopicPartition, CommittedOffset]]:
        """Offsets that wait for a transaction: producer id, group, partition, offset."""
        for producer_id, waiting in self._pending.items():
            for (group, partition), offset in waiting.items():
                yield producer_id, group, partition, offset

    def is_pending(self, group: str, partition: TopicPartition) -> bool:
        return any((group, partition) in waiting for waiting in self._pending.values())

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        for (group, partition), offset in self._pending.pop(producer_id, {}).items():
            if is_commit:
                self.commit(group, partition, offset)
        self.pending_changed.fire()

    def forget(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget committed offsets, and those that would be committed by a transaction."""
        gone = {(group, partition) for partition in partitions}
        self.forget_committed(group, [partition for _, partition in gone])
        self._forget_pending(gone.__contains__)

    def forget_committed(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        committed = self._committed.get(group, {})
        for partition in list(partitions):
            if committed.pop(partition, None) is not None:
                self._notify(group, partition, None)

    def forget_group(self, group: str) -> None:
        self.forget_committed(group, self.of(group))
        self._committed.pop(group, None)
        self._forget_pending(lambda waiting: waiting[0] == group)

    def forget_topic(self, topic: str) -> None:
        for group, offsets in self._committed.items():
            self.forget_committed(group, [partition for partition in offsets if partition[0] == topic])
        self._forget_pending(lambda waiting: waiting[1][0] == topic)

    def _forget_pending(self, is_gone: Callable[[tuple[str, TopicPartition]], bool]) -> None:
        for waiting in self._pending.values():
            for each in [each for each in waiting if is_gone(each)]:
                del waiting[each]
        self.pending_changed.fire()

    def _notify(self, group: str, partition: TopicPartition, offset: CommittedOffset | None) -> None:
        if self.on_change is not None:
            self.on_change(group, partition, offset)
