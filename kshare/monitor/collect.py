"""Takes readings of a cluster. If a response is missing, its figures are unknown, and watching continues.

What a reading costs, in requests, for clusters whose `__share_group_state` we may read:

    request             | how many
    --------------------+--------------------------------------------------------------------------------
    Metadata            | 5
    ListGroups          | 1 for each broker
    FindCoordinator     | 1 for 100 groups
    ShareGroupDescribe  | 1 for 100 groups of a coordinator
    ListOffsets         | 2 for each broker that leads partitions, and 2 for `__share_group_state`
    Fetch               | 1 for each partition of `__share_group_state` that has something new, and 1 for each
                        | share-partition whose start offset has moved, at most 500; up to 4 for each that begins with
                        | aborted transactions, and again when its log has grown
    DescribeConfigs     | 1 for 200 groups, 1 for 200 topics and 1 for 200 dead-letter topics, once a minute

For groups that have settled nothing yet, `probable_starts` may need a few more. Without the right to read the topic,
there is one DescribeShareGroupOffsets for each group instead, and deliveries are unknown.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import anyio

from kshare.admin import groups, offsets
from kshare.admin.progress import ProgressReader
from kshare.admin.results import GroupListing, PartitionOffset, PartitionProgress
from kshare.admin.routing import Router
from kshare.errors import BrokerError
from kshare.monitor.dead_letter_topics import count_records
from kshare.monitor.oldest import UNREAD, OldestRecords, Waiting
from kshare.monitor.probable_starts import ProbableStarts
from kshare.monitor.settings import GroupSettings, SettingsReader
from kshare.monitor.side_by_side import side_by_side
from kshare.monitor.snapshot import GroupReading, PartitionReading, Snapshot
from kshare.monitor.stalls import MembersSince, known_members
from kshare.state.share_records import SharePartitionKey
from kshare.wording import no_group

_SHORTEST_RETRY_S = 5.0
"""Leaders and coordinators that move are back by then, so that a rolling restart isn't a failure."""


def retry_limit(interval_s: float, request_timeout: float) -> float:
    """For how long requests of readings are retried: it is to be noticed at once that a cluster has gone."""
    return min(request_timeout, max(interval_s, _SHORTEST_RETRY_S))


class Collector:
    """Takes readings of all groups, or of some. Caches what doesn't change."""

    def __init__(
        self, router: Router, chosen: Sequence[str] = (), members_since: MembersSince | None = None
    ) -> None:
        """`members_since`: what other collectors have seen."""
        self._router = router
        self._chosen = chosen
        self._progress = ProgressReader(router)
        self._settings = SettingsReader(router)
        self._oldest = OldestRecords(router)
        self._starts = ProbableStarts(router)
        self._members_since = members_since or MembersSince()

    async def read(self) -> Snapshot:
        listed = await groups.list_groups(self._router, ("share",), ())
        self._members_since.keep({listing.group for listing in listed})
        missing: tuple[str, ...] = ()
        if self._chosen:
            names = [listing.group for listing in listed]
            missing = tuple(
                no_group(name, names) for name in dict.fromkeys(self._chosen) if name not in names
            )
            listed = [listing for listing in listed if listing.group in self._chosen]
        return await self.read_listed(listed, missing)

    async def read_listed(self, listed: Sequence[GroupListing], missing: tuple[str, ...] = ()) -> Snapshot:
        """Read these groups. Doesn't ask all brokers which groups there are, as `read` does."""
        described = await groups.describe_share_groups(self._router, [listing.group for listing in listed])
        members = known_members(described)
        self._members_since.look(members, time.time())
        settings = await self._settings.groups.of(members)
        stored, problems = await self._read_progress(settings)
        progress = await self._starts.fill_in(stored, members)
        rows = {(group, row.topic, row.partition): row for group, some in progress.items() for row in some}
        waiting = await self._oldest.read(
            rows, self._progress.topic_ids, lambda where: settings[where[0]].is_committed_only
        )
        retention = await self._settings.retention_s.of({row.topic for row in rows.values()})
        graves = {setting.dead_letter_topic for setting in settings.values() if setting.dead_letter_topic}
        dead_letters = await count_records(self._router, graves)
        flaws = await self._settings.dead_letter_flaws.of(graves)

        def reading(one: GroupListing) -> GroupReading:
            found = described[one.group]
            if isinstance(found, BrokerError):
                return GroupReading(one.group, one.state, problem=found.name)
            rows = progress.get(one.group, ())
            partitions = [
                made
                for made in (self._partition(one.group, row, waiting, retention) for row in rows)
                if made is not None
            ]
            return GroupReading(
                one.group,
                found.state,
                found.members,
                tuple(sorted(partitions, key=lambda row: (row.topic, row.partition))),
                problems.get(one.group),
                settings[one.group],
                len(rows) - len(partitions),
                dead_letters.get(settings[one.group].dead_letter_topic or ""),
                flaws.get(settings[one.group].dead_letter_topic or ""),
            )

        return Snapshot(time.time(), anyio.current_time(), tuple(map(reading, listed)), missing)

    async def _read_progress(
        self, settings: Mapping[str, GroupSettings]
    ) -> tuple[Mapping[str, Sequence[PartitionProgress]], dict[str, str]]:
        """The progress of groups, and the errors of those whose progress can't be read."""
        limits = {group: setting.window_limit for group, setting in settings.items()}
        resets = {group: setting.reset for group, setting in settings.items()}
        progress = await self._progress.read_groups(limits, resets)
        if progress is not None:
            return progress, {}
        reported: dict[str, list[PartitionOffset]] = {}
        problems: dict[str, str] = {}

        async def ask(group: str) -> None:
            try:
                reported[group] = await offsets.share_group_offsets(self._router, group, None)
            except BrokerError as error:  # it may be deleted, or we may lack the permission
                problems[group] = error.name

        await side_by_side(ask, settings)
        return await self._progress.read(reported, resets), problems

    def _partition(
        self,
        group: str,
        one: PartitionProgress,
        waiting: Mapping[tuple[str, str, int], Waiting],
        retention: Mapping[str, float | None],
    ) -> PartitionReading | None:
        """None if the partition has no leader at the moment."""
        if one.end_offset is None:
            return None
        topic_id = self._progress.topic_ids.get(one.topic, b"")
        known = waiting.get((group, one.topic, one.partition), UNREAD)
        return PartitionReading(
            group,
            one.topic,
            one.partition,
            one.start_offset,
            one.end_offset,
            one.lag,
            one.redelivered,
            one.most_deliveries,
            known.since,
            one,
            retention.get(one.topic),
            topic_id,
            self._progress.states.get(SharePartitionKey(group, topic_id, one.partition)),
            known.has_records,
            self._members_since.of(group, one.topic, one.partition),
        )
