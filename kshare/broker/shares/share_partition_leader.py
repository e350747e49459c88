"""A share-partition at its leader: the pure state machine with its log, lock timer and durable state.

Every change is written to the share coordinator before it takes effect. If the coordinator responds that the leader or
state epoch is outdated, the share-partition is dropped, and loaded again when it is next needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kshare.broker.clock import Clock, Timer
from kshare.broker.cluster import Cluster, Partition
from kshare.broker.configs import Configs
from kshare.broker.counters import Counters
from kshare.broker.log import StoredBatch, is_aborted
from kshare.broker.notifiers import WakeOne
from kshare.broker.offset_reset import OFFSET_RESET, initial_start_offset
from kshare.broker.request_error import RequestError
from kshare.broker.share_state.coordinator import ShareCoordinator
from kshare.broker.share_state.share_state import UNKNOWN_START, StateUpdate
from kshare.broker.shares.acquiring import AcquiredRecords
from kshare.broker.shares.dead_letters import DeadLetters
from kshare.broker.shares.delivery import GroupLimits
from kshare.broker.shares.share_partition import AckRange, Change, SharePartition
from kshare.protocol.acknowledge_types import AcknowledgeType
from kshare.protocol.error_codes import ErrorCode

_AFTER_WRITE = {
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.INVALID_REQUEST: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The coordinator's error → the error that members receive."""


@dataclass(slots=True, frozen=True)
class ShareContext:
    """The parts of the broker that leaders use."""

    clock: Clock
    configs: Configs
    cluster: Cluster
    states: ShareCoordinator
    dead_letters: DeadLetters | None = None
    """None before 4.4."""
    counters: Counters = field(default_factory=Counters)
    since_4_2: bool = True
    """See `GroupLimits`."""


@dataclass(slots=True, frozen=True)
class ReadableBatches:
    """Batches from which records can be acquired."""

    batches: list[StoredBatch]
    has_more: bool
    """Whether the log has more records after these."""


@dataclass(slots=True, frozen=True)
class PartitionRecords:
    """The result of one fetch for one partition."""

    acquired: list[AcquiredRecords]
    batches: list[StoredBatch]
    has_skipped: bool = False
    """All acquired records were aborted. The records after them haven't been tried."""


class SharePartitionLeader:
    """A loaded share-partition. The constructor loads it, or raises RequestError if that isn't possible now."""

    def __init__(
        self,
        group: str,
        partition: Partition,
        parts: ShareContext,
        on_drop: Callable[[SharePartitionLeader], None],
    ) -> None:
        self.group = group
        self.partition = partition
        self.available = WakeOne()
        """Fires for one waiting fetch after the other if there are records, and for all on `give_up`."""
        self._parts = parts
        self._on_drop = on_drop
        self._leader_epoch = partition.leader_epoch
        self._timer: Timer | None = None
        self._limits: tuple[int, GroupLimits] | None = None
        """The limits, and the version of the configuration that they are from."""
        self.key = (group, partition.topic.id, partition.index)
        try:
            stored = parts.states.read(self.key, self._leader_epoch)
        except RequestError as refusal:
            raise _as_client_error(refusal) from None
        self.state_epoch = stored.state_epoch
        start = stored.start
        if start == UNKNOWN_START:
            reset = parts.configs.group(group, OFFSET_RESET)
            start = initial_start_offset(reset, partition.log, parts.clock.now())
        self.shared = SharePartition(max(start, 0), stored.batches)
        partition.log.appended.listen(self.offer)

    # --- the group's configuration

    @property
    def limits(self) -> GroupLimits:
        configs, group = self._parts.configs, self.group
        if self._limits is None or self._limits[0] != configs.version:
            limits = GroupLimits(
                configs.group_number(group, "share.delivery.count.limit"),
                configs.group_number(group, "share.record.lock.duration.ms"),
                configs.group_number(group, "share.partition.max.record.locks"),
                self._parts.since_4_2,
            )
            self._limits = configs.version, limits
        return self._limits[1]

    @property
    def is_committed_only(self) -> bool:
        return self._parts.configs.group(self.group, "share.isolation.level") == "read_committed"

    # --- fetching

    def follow_log(self) -> bool:
        """Move to the log's start if it has passed our next offset. Returns whether it has."""
        log = self.partition.log
        if self.shared.window.next_available() >= log.start_offset:
            return False
        has_moved = self.shared.move_start(log.start_offset)
        if has_moved:
            self.offer()
        return has_moved

    def has_available(self) -> bool:
        """Whether there may be records to acquire, or the log start has moved."""
        log, begin = self.partition.log, self.shared.window.next_available()
        if begin < log.start_offset:
            return True
        return begin < log.readable_end(self.is_committed_only) and self.shared.can_acquire(self.limits)

    def offer(self) -> None:
        """If there are records, wake the fetch that has waited longest. It must call `wake_next` afterwards."""
        if self.available.is_awaited and self.has_available():
            self.available.fire()

    def wake_next(self) -> None:
        """If records are left, wake the next waiting fetch."""
        if self.available.is_awaited and self.has_available():
            self.available.wake_next()

    def look(self, max_bytes: int, max_records: int) -> ReadableBatches:
        """What a fetch of at most `max_records` records would read now. Empty if no records can be acquired."""
        if not self.shared.can_acquire(self.limits):
            return ReadableBatches([], False)
        log, window = self.partition.log, self.shared.window
        begin = window.next_available()
        end = log.readable_end(self.is_committed_only)
        first = next(log.batches_from(begin), None) if begin < end else None
        if first is None:
            return ReadableBatches([], False)
        # Compaction may have removed more offsets than `max_records`.
        bound = min(end, max(begin, window.end, first.base_offset) + max_records)
        return ReadableBatches(log.read(begin, max_bytes, bound).batches, bound < end)

    def acquire(
        self, member: str, batches: Sequence[StoredBatch], max_records: int, batch_size: int, is_strict: bool
    ) -> PartitionRecords:
        """Acquire records in the batches that `look` has just returned."""
        limits = self.limits
        acquired = self.shared.acquire(
            member,
            [(batch.base_offset, batch.last_offset) for batch in batches],
            max_records=max_records,
            batch_size=batch_size,
            is_strict=is_strict,
            limits=limits,
            now=self._parts.clock.now(),
        )
        found = sum(each.size for each in acquired)
        if acquired and self.is_committed_only:
            acquired = self._without_aborted(member, acquired, batches)
        self._arm()
        if not acquired:
            return PartitionRecords([], [], has_skipped=found > 0)
        self._parts.counters.acquired[self.group] += sum(each.last - each.first + 1 for each in acquired)
        first, last = acquired[0].first, acquired[-1].last
        return PartitionRecords(
            acquired, [b for b in batches if b.last_offset >= first and b.base_offset <= last]
        )

    def _without_aborted(
        self, member: str, acquired: list[AcquiredRecords], batches: Sequence[StoredBatch]
    ) -> list[AcquiredRecords]:
        """Archive the batches of aborted transactions, and return the other acquired records."""
        log = self.partition.log
        aborted = log.aborted_between(batches[0].base_offset, batches[-1].last_offset + 1)
        archived = [
            (batch.base_offset, batch.last_offset)
            for batch in batches
            if not batch.is_control and is_aborted(batch, aborted)
        ]
        if not archived:
            return acquired
        held = [
            (max(first, each.first), min(last, each.last))
            for first, last in archived
            for each in acquired
            if first <= each.last and last >= each.first
        ]
        if held:
            # This isn't written: the next leader will find them aborted too.
            ranges = [AckRange(first, last, (AcknowledgeType.GAP,)) for first, last in held]
            change = self.shared.acknowledge(member, ranges, self.limits)
            self.shared.apply(change, self._parts.clock.now(), self.limits)
        return [piece for each in acquired for piece in _without(each, held)]

    # --- settling

    def acknowledge(self, member: str, ranges: Sequence[AckRange]) -> None:
        """Accept all ranges or none; raises RequestError."""
        self._commit(self.shared.acknowledge(member, ranges, self.limits))
        for each in ranges:
            size = each.last - each.first + 1
            for kind in each.kinds:
                count = size if len(each.kinds) == 1 else 1
                self._parts.counters.acknowledged[self.group, kind.word] += count

    def release(self, member: str) -> None:
        """Release all records of a member whose session has ended."""
        change = self.shared.release(member, self.limits)
        self._parts.counters.sessions_ended[self.group] += change.size
        self._commit_unwritten(change)

    def _expire(self) -> None:
        self._timer = None
        change = self.shared.expire(self._parts.clock.now(), self.limits)
        if change.settled:
            self._parts.counters.lock_timeouts[self.group] += change.size
            self._commit_unwritten(change)
        self._arm()

    def _commit_unwritten(self, change: Change) -> None:
        """Release records even if the change can't be written, because no request waits for the result."""
        try:
            self._commit(change)
        except RequestError:
            self.shared.apply(change, self._parts.clock.now(), self.limits)
            self.offer()

    def _commit(self, change: Change) -> None:
        if change.settled:
            self._write(change)
        for each in change.archived:
            self._parts.counters.dead_letters[self.group] += each.last - each.first + 1
        if change.archived and self._parts.dead_letters is not None:
            self._parts.dead_letters.write_copies(self.group, self.partition, change.archived)
        self.shared.apply(change, self._parts.clock.now(), self.limits)
        self._arm()
        self.offer()

    def _write(self, change: Change) -> None:
        window = self.shared.window
        newly_settled = sum(last - first + 1 for (first, last, _), state in change.settled if state.is_final)
        update = StateUpdate(
            self.state_epoch,
            self._leader_epoch,
            window.start,
            window.settled_count() + newly_settled,
            tuple(change.batches),
        )
        try:
            self._parts.states.write(self.key, update)
        except RequestError as refusal:
            if refusal.code in (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_LEADER_EPOCH):
                self.give_up()
            raise _as_client_error(refusal) from None

    # --- the lock timer, and the end

    def _arm(self) -> None:
        """The timer may be early, if its records are settled by now. Always searching for the next lock costs more."""
        if self._timer is not None and self._timer.when <= self._parts.clock.now() + self.limits.lock_ms:
            return
        due = self.shared.next_expiry()
        if self._timer is not None and (due is None or self._timer.when > due):
            self._timer.cancel()
            self._timer = None
        if self._timer is None and due is not None:
            self._timer = self._parts.clock.at(due, self._expire)

    def give_up(self) -> None:
        """Drop this instance: the leader has moved, or the state was initialized again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.partition.log.appended.forget(self.offer)
        self._on_drop(self)
        self.available.fire_all()


def _as_client_error(refusal: RequestError) -> RequestError:
    return RequestError(_AFTER_WRITE.get(refusal.code, refusal.code), refusal.message)


def _without(acquired: AcquiredRecords, excluded: Sequence[tuple[int, int]]) -> list[AcquiredRecords]:
    """`acquired` without the ranges in `excluded`, which ascend."""
    pieces, first = [], acquired.first
    for begin, end in excluded:
        if end < first or begin > acquired.last:
            continue
        if begin > first:
            pieces.append(AcquiredRecords(first, begin - 1, acquired.count))
        first = end + 1
    if first <= acquired.last:
        pieces.append(AcquiredRecords(first, acquired.last, acquired.count))
    return pieces
