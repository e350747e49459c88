"""The progress of share groups in their partitions: one computation for all commands that show it.

There are three sources, and none has everything:

    source                    | what it knows                          | what it doesn't
    --------------------------+----------------------------------------+-----------------------------------------------
    group coordinator         | a start offset; the lag since Kafka 4.2| settled records right behind the start offset
    __share_group_state       | which records are settled, deliveries  | locks; what the topic has removed meanwhile
    leaders of the partitions | where the log begins and ends          | everything about groups

Decides how they are combined. If we aren't authorized to read the state topic, the coordinator's numbers are used. If a
group hasn't settled or released anything in a partition, `expected_starts` decides where it starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kshare.admin.expected_starts import reset_of, with_expected_start
from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets
from kshare.admin.results import PartitionOffset, PartitionProgress, TopicPartition
from kshare.admin.routing import Router
from kshare.admin.share_states import StoredStates
from kshare.admin.state_trail import StateTrail
from kshare.admin.window_limits import WindowLimits
from kshare.errors import BrokerError
from kshare.state.share_records import UNINITIALIZED_START_OFFSET, SharePartitionKey, SharePartitionState


class ProgressReader:
    """Reads the progress of groups. Each call continues in the state topic where the previous one stopped."""

    def __init__(self, router: Router) -> None:
        self.topic_ids: dict[str, bytes] = {}
        """The ids of the topics that existed at the last reading, by name."""
        self.states: Mapping[SharePartitionKey, SharePartitionState] = {}
        """The states of the last `read_groups`."""
        self._router = router
        self._states = StoredStates(router)
        self._limits = WindowLimits(router)
        self._led: set[TopicPartition] = set()

    async def read(
        self,
        offsets: Mapping[str, Sequence[PartitionOffset]],
        resets: Mapping[str, str | None] | None = None,
    ) -> dict[str, list[PartitionProgress]]:
        """`offsets`: what the coordinator of each group reports. `resets`: `share.auto.offset.reset`, if known."""
        where = {(row.topic, row.partition) for rows in offsets.values() for row in rows}
        if not where:
            return {group: [] for group in offsets}
        names = await self._find_topics()
        firsts, ends = await self._bounds(where)
        ids = self.topic_ids = {name: names[name] for name, _ in where if name in names}
        states = await self._states.of(
            SharePartitionKey(group, ids[row.topic], row.partition)
            for group, rows in offsets.items()
            for row in rows
            if row.topic in ids
        )
        found: dict[str, list[PartitionProgress]] = {}
        for group, rows in offsets.items():
            found[group] = []
            for row in rows:
                place = (row.topic, row.partition)
                key = SharePartitionKey(group, ids.get(row.topic, b""), row.partition)
                trail = self._states.trails.get(key)
                found[group].append(progress(row, states.get(key), firsts.get(place), ends.get(place), trail))
            found[group] = await self._limits.fill_in(group, found[group])
            if any(row.start_offset is None for row in found[group]):
                reset = await reset_of(self._router, group) if resets is None else resets.get(group)
                found[group] = [with_expected_start(row, reset) for row in found[group]]
        return found

    async def read_groups(
        self, limits: Mapping[str, int], resets: Mapping[str, str | None]
    ) -> dict[str, list[PartitionProgress]] | None:
        """The progress of many groups, without asking their coordinators: None if the stored state can't be read.

        `limits`: the maximum size of the in-flight window, by group. `resets`: their `share.auto.offset.reset`.
        """
        states = await self._states.of_groups(limits.keys())
        if states is None:
            return None
        self.states = states
        found: dict[str, list[PartitionProgress]] = {group: [] for group in limits}
        if not states:
            return found
        self.topic_ids = await self._find_topics()
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        firsts, ends = await self._bounds(
            {(names[key.topic_id], key.partition) for key in states if key.topic_id in names}
        )
        for key, state in states.items():
            topic = names.get(key.topic_id)
            if topic is not None:
                place = (topic, key.partition)
                start = None if state.start_offset == UNINITIALIZED_START_OFFSET else state.start_offset
                known = PartitionOffset(*place, start, state.leader_epoch, None)
                trail = self._states.trails.get(key)
                partition = progress(known, state, firsts.get(place), ends.get(place), trail)
                partition = with_expected_start(partition, resets[key.group])
                found[key.group].append(replace(partition, window_limit=limits[key.group]))
        return found

    async def _find_topics(self) -> dict[str, bytes]:
        """The ids of all topics. Also finds out which partitions have a leader."""
        topics = [topic for topic in (await self._router.metadata(None)).topics if topic.name]
        self._led = {
            (topic.name or "", row.partition_index)
            for topic in topics
            for row in topic.partitions
            if row.leader_id >= 0
        }
        return {topic.name or "": topic.topic_id for topic in topics}

    async def _bounds(
        self, where: set[TopicPartition]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """The first and the end offsets of the partitions that have a leader."""
        return (
            await self._log_offsets(where & self._led, EARLIEST),
            await self._log_offsets(where & self._led, LATEST),
        )

    async def _log_offsets(self, where: Iterable[TopicPartition], which: int) -> dict[TopicPartition, int]:
        wanted = set(where)
        try:
            return await log_offsets(self._router, wanted, which) if wanted else {}
        except BrokerError:  # a topic was deleted meanwhile, or a partition has no leader
            return {}


def progress(
    reported: PartitionOffset,
    state: SharePartitionState | None,
    log_start: int | None,
    end: int | None,
    trail: StateTrail | None = None,
) -> PartitionProgress:
    """The progress in one partition. `state` is None if nothing is stored, or we aren't authorized to read it."""
    place = (reported.topic, reported.partition)
    if state is not None and state.start_offset != UNINITIALIZED_START_OFFSET:
        return _of_state(reported, state, log_start, end, trail)
    start, lag, removed = reported.start_offset, reported.lag, 0
    if start is not None and log_start is not None:
        removed = max(0, log_start - start)
        start += removed
    if lag is not None and removed:
        lag = max(0, lag - removed)
    if start is not None and end is not None:
        start = min(start, end)
        lag = lag if lag is None else min(lag, end - start)
    found = PartitionProgress(*place, start, lag, reported.leader_epoch, log_start, end, removed)
    if start is not None or state is None or trail is None:
        return found
    # Nothing was settled or released yet: it is only stored when the share-partition was initialized.
    return replace(
        found,
        redelivered=0,
        most_deliveries=0,
        changed_at=trail.changed_at,
        accepted=0,
        released=0,
        deliveries=0,
        stored_since=trail.since,
    )


def _of_state(
    reported: PartitionOffset,
    state: SharePartitionState,
    log_start: int | None,
    end: int | None,
    trail: StateTrail | None,
) -> PartitionProgress:
    stored = state.start_offset
    first = max(stored, log_start or 0)
    start = state.first_open(first)
    removed = sum(range_.size for range_ in state.open_ranges(first))
    opened = [] if end is None else list(state.covering(start, end - 1))
    opened = [range_ for range_ in opened if not range_.is_settled]
    window_end = max(state.window_end, start)
    redelivered = [range_ for range_ in opened if range_.deliveries]
    return PartitionProgress(
        reported.topic,
        reported.partition,
        start if end is None else min(start, end),
        reported.lag if end is None else sum(range_.size for range_ in opened),
        reported.leader_epoch,
        log_start,
        end,
        removed,
        window_end,
        None,
        sum(max(0, min(range_.last, window_end - 1) - range_.first + 1) for range_ in opened),
        None if end is None else sum(range_.size for range_ in redelivered),
        None if end is None else max((range_.deliveries for range_ in redelivered), default=0),
        # If it moved because the start of the log has moved, nothing is stored about that.
        trail.start_since if trail is not None and start == state.first_open() else None,
        trail.changed_at if trail is not None else None,
        tuple(sorted(trail.archived.items())) if trail is not None else (),
        trail.accepted if trail is not None else None,
        trail.released if trail is not None else None,
        trail.deliveries if trail is not None else None,
        start_deliveries=next((range_.deliveries for range_ in opened if range_.first == start), None),
        stored_since=trail.since if trail is not None else None,
    )
