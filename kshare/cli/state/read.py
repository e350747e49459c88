"""Reads the entries of `__share_group_state`, from a cluster by plain Fetch, or from log segments of a broker.

In a cluster, only the partitions that contain the group's share-partitions are read, or all if no group is given.
`kshare.state.share_records` interprets the records.
"""

from __future__ import annotations

import mmap
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets
from kshare.admin.offsets import share_group_offsets
from kshare.admin.progress import progress
from kshare.admin.results import PartitionOffset, PartitionProgress
from kshare.admin.routing import Router
from kshare.admin.share_states import StateEntry, StateLog, home_of
from kshare.admin.window_limits import WindowLimits
from kshare.cli.terminal.failure import Failure
from kshare.errors import DecodeError
from kshare.protocol.records import read_batches
from kshare.state.share_records import SharePartitionKey, SharePartitionState, ShareStates


class LiveTopic:
    """The topic in a cluster. Each reading continues where the previous one ended."""

    def __init__(self, router: Router, group: str | None) -> None:
        self.names: dict[bytes, str] = {}
        """Topic names by id; deleted topics are missing."""
        self._router = router
        self._group = group
        self._log = StateLog(router)
        self._limits = WindowLimits(router)
        self._log_partitions: Iterable[int] = ()

    @property
    def states(self) -> dict[SharePartitionKey, SharePartitionState]:
        return self._log.states

    async def open(self) -> None:
        """Find the topics, and the partitions to read."""
        self.names = {one.topic_id: one.name or "" for one in (await self._router.metadata(None)).topics}
        rows = await self._share_partitions(self._group) if self._group is not None else None
        count = await self._log.partition_count()
        if count:
            self._log_partitions = range(count) if rows is None else {home_of(where, count) for where in rows}

    def entries(self) -> AsyncIterator[StateEntry]:
        """Entries stored since the last call."""
        return self._log.entries(self._log_partitions)

    async def progress(
        self, wanted: Iterable[SharePartitionKey]
    ) -> dict[SharePartitionKey, PartitionProgress]:
        """The progress of share-partitions, including removed records; without deleted topics."""
        keys = {
            where: (self.names[where.topic_id], where.partition)
            for where in wanted
            if where.topic_id in self.names
        }
        known_keys = set(keys.values())
        firsts = await log_offsets(self._router, known_keys, EARLIEST) if known_keys else {}
        ends = await log_offsets(self._router, known_keys, LATEST) if known_keys else {}
        found: dict[SharePartitionKey, PartitionProgress] = {}
        for where, key in keys.items():
            state = self.states[where]
            reported = PartitionOffset(*key, None, state.leader_epoch, None)
            trail = self._log.trails.of.get(where)
            one = progress(reported, state, firsts[key], ends[key], trail)
            (found[where],) = await self._limits.fill_in(where.group, [one])
        return found

    async def _share_partitions(self, group: str) -> list[SharePartitionKey]:
        ids = {name: topic_id for topic_id, name in self.names.items()}
        rows = await share_group_offsets(self._router, group, None)
        return [SharePartitionKey(group, ids[row.topic], row.partition) for row in rows if row.topic in ids]


def file_entries(files: Iterable[Path], states: ShareStates) -> Iterator[StateEntry]:
    """Read segments, sorted by file name, which is the order in which brokers write them."""
    for path in sorted(files):
        with path.open("rb") as file:
            if path.stat().st_size == 0:
                continue
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            for batch in read_batches(memoryview(data)):
                for record in batch if not batch.is_control else ():
                    entry = StateEntry.read(record, states)
                    if entry is not None:
                        yield entry
        except DecodeError as error:
            raise Failure(f"{path}: {error}; is it a log segment?") from None
