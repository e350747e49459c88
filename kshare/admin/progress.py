"""The progress of share groups in their partitions: one computation for all commands that show it.

There are three sources, and none has everything:

    source                    | what it knows                          | what it doesn't
    --------------------------+----------------------------------------+-----------------------------------------------
    group coordinator         | a start offset; the lag since Kafka 4.2| settled records right behind the start offset
    __share_group_state       | which records are settled, deliveries  | locks; what the topic has removed meanwhile
    leaders of the partitions | where the log begins and ends          | everything about groups

Decides how they are combined. If we aren't authorized to read the state topic, the coordinator's numbers are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets
from kshare.admin.results import PartitionOffset, PartitionProgress, TopicPartition
from kshare.admin.routing import Router
from kshare.admin.state_trail import StateTrail
from kshare.admin.stored_states import StoredStates
from kshare.admin.window_limits import WindowLimits
from kshare.errors import BrokerError
from kshare.state.share_records import UNINITIALIZED_START_OFFSET, SharePartitionKey, SharePartitionState


class ProgressReader:
    """Reads the progress of groups. Each call continues in the state topic where the previous one stopped."""

    def __init__(self, router: Router) -> None:
        self.topic_ids: dict[str, bytes] = {}
        """The ids of the topics that existed at the last `read`, by name."""
        self._router = router
        self._states = StoredStates(router)
        self._limits = WindowLimits(router)

    async def read(
        self, offsets: Mapping[str, Sequence[PartitionOffset]]
    ) -> dict[str, list[PartitionProgress]]:
        """`offsets`: what the coordinator of each group reports."""
        where = {(one.topic, one.partition) for rows in offsets.values() for one in rows}
        if not where:
            return {group: [] for group in offsets}
        topics = {one.name: one for one in (await self._router.metadata(None)).topics if one.name}
        ids = self.topic_ids = {name: topics[name].topic_id for name, _ in where if name in topics}
        led_partitions = {
            (name, row.partition_index)
            for name, topic in topics.items()
            for row in topic.partitions
            if row.leader_id >= 0
        }
        ends = await self._log_offsets(where & led_partitions, LATEST)
        firsts = await self._log_offsets(where & led_partitions, EARLIEST)
        states = await self._states.of(
            SharePartitionKey(group, ids[one.topic], one.partition)
            for group, rows in offsets.items()
            for one in rows
            if one.topic in ids
        )
        found: dict[str, list[PartitionProgress]] = {}
        for group, rows in offsets.items():
            found[group] = []
            for one in rows:
                place = (one.topic, one.partition)
                key = SharePartitionKey(group, ids.get(one.topic, b""), one.partition)
                trail = self._states.trails.get(key)
                found[group].append(progress(one, states.get(key), firsts.get(place), ends.get(place), trail))
            found[group] = await self._limits.fill_in(group, found[group])
        return found

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
    return PartitionProgress(*place, start, lag, reported.leader_epoch, log_start, end, removed)


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
    removed = sum(one.size for one in state.open_ranges(first))
    opened = [] if end is None else list(state.covering(start, end - 1))
    opened = [one for one in opened if not one.is_settled]
    window_end = max(state.window_end, start)
    redelivered = [one for one in opened if one.deliveries]
    return PartitionProgress(
        reported.topic,
        reported.partition,
        start if end is None else min(start, end),
        reported.lag if end is None else sum(one.size for one in opened),
        reported.leader_epoch,
        log_start,
        end,
        removed,
        window_end,
        None,
        sum(max(0, min(one.last, window_end - 1) - one.first + 1) for one in opened),
        None if end is None else sum(one.size for one in redelivered),
        None if end is None else max((one.deliveries for one in redelivered), default=0),
        # If it moved because the start of the log has moved, nothing is stored about that.
        trail.start_since if trail is not None and start == state.first_open() else None,
        trail.changed_at if trail is not None else None,
        tuple(sorted(trail.archived.items())) if trail is not None else (),
    )
