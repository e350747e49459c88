"""Reads the stored state of share-partitions from `__share_group_state`, like any consumer.

Decides which partition of the topic has a share-partition's records, and reads it from its start: brokers keep these
partitions short, because a snapshot makes everything before it obsolete. Later reads continue where the last one
stopped. `kshare.state.share_records` decides what the records mean. Locks aren't stored in the topic.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable
from typing import NamedTuple

from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets
from kshare.admin.log_reading import LogReader
from kshare.admin.routing import Router
from kshare.admin.state_trail import StateTrails
from kshare.errors import BrokerError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.json_form import uuid_text
from kshare.protocol.messages import ShareSnapshotValue
from kshare.protocol.record import Record
from kshare.state.share_records import (
    TOPIC,
    AppliedRecord,
    SharePartitionKey,
    SharePartitionState,
    ShareStates,
)


class StateEntry(NamedTuple):
    """A record of the topic that describes a share-partition."""

    offset: int
    timestamp: int
    reported: AppliedRecord

    @classmethod
    def read(cls, record: Record, states: ShareStates) -> StateEntry | None:
        """Apply a record to the states. Returns None if it isn't of a known kind."""
        reported = states.apply(record.key, record.value)
        return None if reported is None else cls(record.offset, record.timestamp, reported)


class StateLog:
    """The partitions of the topic that were requested, as far as they have been read."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._reader = LogReader(router)
        self._topic: tuple[bytes, int] | None = None
        self._partition_states: dict[int, ShareStates] = {}
        self.trails = StateTrails()
        """When the states last changed, and which records were archived."""
        self._positions: dict[int, int] = {}
        self._unconfirmed: dict[int, set[SharePartitionKey]] = {}
        """Share-partitions whose records may have been removed unread: they are gone, unless a snapshot follows."""

    @property
    def states(self) -> dict[SharePartitionKey, SharePartitionState]:
        """The states according to what has been read."""
        return {
            where: state for fold in self._partition_states.values() for where, state in fold.states.items()
        }

    async def partition_count(self) -> int:
        """The number of partitions of the topic; 0 if it doesn't exist, because no group has stored anything yet."""
        if self._topic is None:
            try:
                topic = (await self._router.metadata([TOPIC])).topics[0]
            except BrokerError as error:
                if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    return 0
                raise
            self._topic = topic.topic_id, len(topic.partitions)
        return self._topic[1]

    async def read(self, wanted: Iterable[SharePartitionKey]) -> None:
        """Read what is stored for these share-partitions, and for others in the same partitions of the topic."""
        count = await self.partition_count()
        if count:
            async for _ in self.entries({home_of(where, count) for where in wanted}):
                pass

    async def stored(
        self, wanted: Iterable[SharePartitionKey]
    ) -> dict[SharePartitionKey, SharePartitionState]:
        """The states of these as of now. Share-partitions without a stored state are left out."""
        keys = list(wanted)
        await self.read(keys)
        states = self.states
        return {key: states[key] for key in keys if key in states}

    async def read_all(self) -> None:
        """Read all partitions of the topic."""
        async for _ in self.entries(range(await self.partition_count())):
            pass

    async def entries(self, homes: Iterable[int]) -> AsyncIterator[StateEntry]:
        """Yield what these partitions of the topic contain now and wasn't read before."""
        places = [(TOPIC, number) for number in homes]
        unread = [place for place in places if place[1] not in self._positions]
        for (_, number), first in (await self._log_offsets(unread, EARLIEST)).items():
            self._begin(number, first)
        for (_, number), end in (await self._log_offsets(places, LATEST)).items():
            while self._positions[number] < end:
                async for entry in self._read(number, end):
                    yield entry
            self._forget_unconfirmed(number)

    def _begin(self, number: int, first: int) -> None:
        """Read from `first` on. Known states remain, so that following snapshots tell what has happened since."""
        known = self._partition_states.setdefault(number, ShareStates())
        self._unconfirmed[number] = set(known.states)
        self._positions[number] = first

    def _forget_unconfirmed(self, number: int) -> None:
        """Brokers keep a snapshot of each share-partition that exists."""
        for where in self._unconfirmed.pop(number, ()):
            self._partition_states[number].states.pop(where, None)
            self.trails.of.pop(where, None)

    async def _read(self, number: int, end: int) -> AsyncIterator[StateEntry]:
        assert self._topic is not None, "its partitions were counted"
        at = self._positions[number]
        try:
            async for batch in self._reader.batches((self._topic[0], number), at, end):
                for record in batch:
                    if record.offset < at:
                        continue
                    entry = StateEntry.read(record, self._partition_states[number])
                    if entry is not None:
                        if isinstance(entry.reported.message, ShareSnapshotValue):
                            self._unconfirmed.get(number, set()).discard(entry.reported.where)
                        self.trails.note(entry.reported, entry.timestamp)
                        yield entry
                self._positions[number] = batch.last_offset + 1
            self._positions[number] = max(self._positions[number], end)
        except BrokerError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            # The log start has moved past our position meanwhile: there are newer snapshots after it.
            first = (await self._log_offsets([(TOPIC, number)], EARLIEST))[TOPIC, number]
            if first <= self._positions[number]:
                raise
            self._begin(number, first)

    async def _log_offsets(self, places: list[tuple[str, int]], which: int) -> dict[tuple[str, int], int]:
        return await log_offsets(self._router, places, which) if places else {}


class StoredStates:
    """The states as far as we are authorized to read them: none if we aren't, or if the topic doesn't exist."""

    def __init__(self, router: Router) -> None:
        self._log = StateLog(router)
        self.trails = self._log.trails.of
        """The history of the requested share-partitions, and of others in the same partitions of the topic."""
        self._is_unauthorized = False

    async def of_groups(self, groups: Collection[str]) -> dict[SharePartitionKey, SharePartitionState] | None:
        """The current states of all share-partitions of these groups; None if we can't read the topic."""
        if self._is_unauthorized:
            return None
        try:
            await self._log.read_all()
        except BrokerError as error:
            self._is_unauthorized = error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return None
        return {where: state for where, state in self._log.states.items() if where.group in groups}

    async def of(self, wanted: Iterable[SharePartitionKey]) -> dict[SharePartitionKey, SharePartitionState]:
        """The current states. Reads only what was stored since the previous call."""
        where = list(wanted)
        if not where or self._is_unauthorized:
            return {}
        try:
            return await self._log.stored(where)
        except BrokerError as error:
            self._is_unauthorized = error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return {}


async def share_states(
    router: Router, wanted: Iterable[SharePartitionKey]
) -> dict[SharePartitionKey, SharePartitionState]:
    """The states that are stored, as of when reading began. Share-partitions without a stored state are left out."""
    return await StateLog(router).stored(wanted)


def home_of(where: SharePartitionKey, partition_count: int) -> int:
    """The partition of the topic that holds its records: Java's hash of the coordinator's key."""
    name, number = f"{where.group}:{uuid_text(where.topic_id)}:{where.partition}", 0
    for unit in memoryview(name.encode("utf-16-le")).cast("H"):
        number = (number * 31 + unit) & 0xFFFFFFFF
    signed = number - (1 << 32) if number >> 31 else number
    return (0 if signed == -(1 << 31) else abs(signed)) % partition_count
