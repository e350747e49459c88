"""Reads the entries of `__share_group_state` from a cluster, by plain Fetch, with the progress that they mean.

Only the partitions that contain the group's share-partitions are read, or all if no group is given.
`kshare.state.share_records` interprets the records.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio

from kshare.admin.expected_starts import reset_of, with_expected_start
from kshare.admin.groups import describe_share_group, describe_share_groups
from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets
from kshare.admin.offsets import share_group_offsets
from kshare.admin.progress import progress
from kshare.admin.results import Member, PartitionOffset, PartitionProgress
from kshare.admin.routing import Router
from kshare.admin.share_states import StateEntry, StateLog, home_of
from kshare.admin.window_limits import WindowLimits
from kshare.errors import BrokerError
from kshare.monitor.near_limits import near_limits, near_limits_line
from kshare.monitor.oldest import OldestRecords
from kshare.monitor.settings import SettingsReader
from kshare.monitor.stalls import StallWatch, known_members
from kshare.state.share_records import SharePartitionKey, SharePartitionState

_OPENED_AGAIN_S = 5.0

GroupMembers: TypeAlias = tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Notes:
    """What isn't in the stored state."""

    limits: str | None = None
    """One line about groups that retention or the limit of members is close to."""
    stalls: Mapping[SharePartitionKey, str] = field(default_factory=dict)
    """Share-partitions that stand still since the previous reading."""


class StoredTopic:
    """The topic in a cluster. Each reading continues where the previous one ended."""

    def __init__(self, router: Router, group: str | None) -> None:
        self.names: dict[bytes, str] = {}
        """Topic names by id; deleted topics are missing."""
        self._router = router
        self._group = group
        self._log = StateLog(router)
        self._limits = WindowLimits(router)
        self._settings = SettingsReader(router)
        self._oldest = OldestRecords(router)
        self._stalls = StallWatch()
        self._log_partitions: set[int] = set()
        self._opened_at = 0.0

    @property
    def states(self) -> dict[SharePartitionKey, SharePartitionState]:
        return self._log.states

    async def open(self) -> None:
        """Find the topics, and the partitions to read."""
        self._opened_at = anyio.current_time()
        found = {topic.topic_id: topic.name or "" for topic in (await self._router.metadata(None)).topics}
        self.names.clear()
        self.names.update(found)
        rows = await self._share_partitions(self._group) if self._group is not None else None
        count = await self._log.partition_count()
        if count:
            # Those of a group that was deleted are still read: they tell that its state is gone.
            self._log_partitions |= (
                {*range(count)} if rows is None else {home_of(where, count) for where in rows}
            )

    async def open_again(self) -> None:
        """Find topics and groups that were created since. Not at each call, because it lists all topics."""
        if anyio.current_time() - self._opened_at >= _OPENED_AGAIN_S:
            await self.open()

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
        undecided = {where.group for where in keys if self.states[where].start_offset < 0}
        resets = {group: await reset_of(self._router, group) for group in undecided}
        found: dict[SharePartitionKey, PartitionProgress] = {}
        for where, key in keys.items():
            state = self.states[where]
            reported = PartitionOffset(*key, None, state.leader_epoch, None)
            trail = self._log.trails.of.get(where)
            one = progress(reported, state, firsts[key], ends[key], trail)
            one = with_expected_start(one, resets.get(where.group))
            (found[where],) = await self._limits.fill_in(where.group, [one])
        return found

    async def members(self, found: Mapping[SharePartitionKey, PartitionProgress]) -> dict[str, GroupMembers]:
        """The members of groups that have a full in-flight window, as far as we are authorized to see them."""
        members: dict[str, GroupMembers] = {}
        for group in {where.group for where, row in found.items() if row.is_window_full}:
            try:
                members[group] = (await describe_share_group(self._router, group)).members
            except BrokerError:
                continue
        return members

    async def notes(self, found: Mapping[SharePartitionKey, PartitionProgress]) -> Notes:
        """As far as we may read it."""
        ids = {row.topic: where.topic_id for where, row in found.items()}
        groups = sorted({where.group for where in found})
        members = known_members(await describe_share_groups(self._router, groups))
        settings = await self._settings.groups.of(groups)
        retention = await self._settings.retention_s.of(ids)
        waiting = await self._oldest.read(found, ids, lambda where: settings[where.group].is_committed_only)
        shares: dict[str, float] = {}
        for where, row in found.items():
            known = waiting.get(where)
            written, kept_s = None if known is None else known.since, retention.get(row.topic)
            if written is not None and kept_s:
                shares[where.group] = max(shares.get(where.group, 0.0), (time.time() - written) / kept_s)

        def reasons(group: str) -> list[str]:
            count = len(members[group]) if group in members else None
            return [*near_limits(count, settings[group].most_members, shares.get(group))]

        return Notes(
            near_limits_line((group, reasons(group)) for group in groups),
            self._stalls.look(found, members, waiting, time.time()),
        )

    async def _share_partitions(self, group: str) -> list[SharePartitionKey]:
        ids = {name: topic_id for topic_id, name in self.names.items()}
        rows = await share_group_offsets(self._router, group, None)
        return [SharePartitionKey(group, ids[row.topic], row.partition) for row in rows if row.topic in ids]
