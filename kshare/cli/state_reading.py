"""`__share_group_state` as entries: out of a live cluster by plain Fetch, or out of log segments of a broker.

Decides which partitions of the topic are read: those where the group's share-partitions are at home, or all. What a
record means is decided by `kshare.state.share_records`.
"""

from __future__ import annotations

import mmap
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets
from kshare.admin.log_reading import LogReader
from kshare.admin.offsets import share_group_offsets
from kshare.admin.routing import Router
from kshare.admin.share_states import home_of
from kshare.cli.failure import Failure
from kshare.errors import BrokerError, DecodeError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.record import Record
from kshare.protocol.records import read_batches
from kshare.state.share_records import TOPIC, SharePartition, ShareStates, Told


class Entry(NamedTuple):
    """A record of the topic that says something of a share-partition."""

    offset: int
    timestamp: int
    told: Told


class LiveTopic:
    """Reads on from where it stopped, each time it is asked."""

    def __init__(self, router: Router, group: str | None) -> None:
        self.states = ShareStates()
        self.names: dict[bytes, str] = {}
        """Topics by id; those that are gone have none."""
        self._router = router
        self._group = group
        self._reader = LogReader(router)
        self._topic_id: bytes | None = None
        self._positions: dict[int, int] = {}

    async def open(self) -> None:
        """Finds out what there is. Before anything was ever stored there is no such topic."""
        found = (await self._router.metadata(None)).topics
        self.names = {one.topic_id: one.name or "" for one in found}
        own = next((one for one in found if one.name == TOPIC), None)
        if self._group is not None:
            homes = await self._homes(self._group, len(own.partitions) if own else 1)
        else:
            homes = {row.partition_index for row in own.partitions} if own else set()
        if own is not None:
            self._topic_id = own.topic_id
            places = [(TOPIC, number) for number in homes]
            firsts = await log_offsets(self._router, places, EARLIEST)
            self._positions = {number: firsts[TOPIC, number] for number in homes}

    async def entries(self) -> AsyncIterator[Entry]:
        """What has been stored since the last time."""
        places = [(TOPIC, number) for number in self._positions]
        ends = await log_offsets(self._router, places, LATEST) if places else {}
        for (_, number), end in ends.items():
            while self._positions[number] < end:
                async for entry in self._read(number, end):
                    yield entry

    async def ends(self, wanted: Iterable[SharePartition]) -> dict[SharePartition, int]:
        """Where the topics end that the groups read; without those that are gone."""
        known = {
            where: (self.names[where.topic_id], where.partition)
            for where in wanted
            if where.topic_id in self.names
        }
        found = await log_offsets(self._router, set(known.values()), LATEST) if known else {}
        return {where: found[place] for where, place in known.items()}

    async def _read(self, number: int, end: int) -> AsyncIterator[Entry]:
        assert self._topic_id is not None
        try:
            async for batch in self._reader.batches((self._topic_id, number), self._positions[number], end):
                for record in batch:
                    entry = _entry(self.states, record)
                    if entry is not None:
                        yield entry
                self._positions[number] = batch.last_offset + 1
            self._positions[number] = max(self._positions[number], end)
        except BrokerError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            # What stood there has been cut off meanwhile: a newer snapshot stands farther back.
            first = await log_offsets(self._router, [(TOPIC, number)], EARLIEST)
            if first[TOPIC, number] <= self._positions[number]:
                raise
            self._positions[number] = first[TOPIC, number]

    async def _homes(self, group: str, partition_count: int) -> set[int]:
        ids = {name: topic_id for topic_id, name in self.names.items()}
        rows = await share_group_offsets(self._router, group, None)
        whose = [SharePartition(group, ids[row.topic], row.partition) for row in rows if row.topic in ids]
        return {home_of(where, partition_count) for where in whose}


def file_entries(files: Iterable[Path], states: ShareStates) -> Iterator[Entry]:
    """Segments in their order: as the names of a broker's files sort."""
    for path in sorted(files):
        with path.open("rb") as file:
            if path.stat().st_size == 0:
                continue
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            for batch in read_batches(memoryview(data)):
                for record in batch if not batch.is_control else ():
                    entry = _entry(states, record)
                    if entry is not None:
                        yield entry
        except DecodeError as error:
            raise Failure(f"{path}: {error}; is it a log segment?") from None


def _entry(states: ShareStates, record: Record) -> Entry | None:
    told = states.apply(record.key, record.value)
    return None if told is None else Entry(record.offset, record.timestamp, told)
