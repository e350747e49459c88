"""`spark.read.format("kshare")`: a view of a group's backlog that acquires nothing.

    records of a share-partition      | in the view
    ----------------------------------+------------------------------------------------------------------
    before its start offset           | no: settled
    acknowledged, rejected, archived  | no
    available, or acquired            | yes, with the stored delivery count
    written after the planning        | no: the view ends where the topic ended when it was planned
    never read by the group           | from where the group's `share.auto.offset.reset` would start

Decides this once, when Spark plans the DataFrame. The ranges are fixed then: the DataFrame can be computed any number
of times, and contains the same records as long as the topic has them. The group isn't affected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kshare.admin.configs import ConfigResource, describe
from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets
from kshare.admin.results import TopicPartition
from kshare.admin.routing import Router
from kshare.admin.share_states import share_states
from kshare.errors import KshareError
from kshare.spark.executor.connections import connections
from kshare.spark.executor.reader import read_arrow
from kshare.spark.existence import topic_ids
from kshare.spark.options import ReadOptions
from kshare.spark.plain_errors import with_plain_errors
from kshare.spark.ranges import RecordRange
from kshare.spark.splitting import RangePartition, frame_tasks
from kshare.state.share_records import (
    UNINITIALIZED_START_OFFSET,
    SharePartitionKey,
    SharePartitionState,
    StateRange,
    StoredState,
    join_equal,
)
from kshare.surroundings import wall_time

_ISOLATION, _RESET = "share.isolation.level", "share.auto.offset.reset"
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_MS = (86_400_000, 3_600_000, 60_000, 1000)


class BacklogReader(DataSourceReader):
    """What Spark calls: splits the view into tasks and reads their records."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    @with_plain_errors
    def partitions(self) -> Sequence[RangePartition]:
        shared = connections(self._options.net_settings())
        shared.reach()
        view = shared.submit(plan_view, shared.router, self._options).result()
        return frame_tasks(view.ranges, self._options.task_limits, is_committed_only=view.is_committed_only)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return read_arrow(self._options, partition.ranges, is_committed_only=partition.is_committed_only)


@dataclass(frozen=True, slots=True)
class BacklogView:
    """The backlog when it was planned."""

    ranges: list[RecordRange]
    is_committed_only: bool
    """Whether to skip aborted transactions, according to the group's isolation level."""


async def plan_view(router: Router, options: ReadOptions) -> BacklogView:
    """Requests states first and end offsets last, so that concurrent changes don't make the view smaller."""
    group = options.group
    settings = {
        entry.name: entry.value or ""
        for entry in await describe(router, ConfigResource.GROUP, group, keys=[_ISOLATION, _RESET])
    }
    is_committed_only = settings.get(_ISOLATION, "").lower() == "read_committed"
    await topic_ids(router, options.topics)
    topics = (await router.metadata(options.topics)).topics
    shares = {
        (topic.name or "", row.partition_index): SharePartitionKey(group, topic.topic_id, row.partition_index)
        for topic in topics
        for row in topic.partitions
    }
    states = await share_states(router, shares.values())
    unread = [
        place
        for place, share in shares.items()
        if share not in states or states[share].start_offset == UNINITIALIZED_START_OFFSET
    ]
    starts = await _first_starts(router, unread, settings.get(_RESET, ""), is_committed_only)
    firsts = await log_offsets(router, shares, EARLIEST)
    ends = await log_offsets(router, shares, LATEST, is_committed_only=is_committed_only)
    ranges: list[RecordRange] = []
    for place, share in shares.items():
        state = SharePartitionState(starts[place], (), 0, 0, 0, 0) if place in starts else states[share]
        topic_id = str(UUID(bytes=share.topic_id))
        ranges += [
            RecordRange(place[0], topic_id, place[1], *bounds)
            for bounds in _open(state, firsts[place], ends[place])
        ]
    return BacklogView(ranges, is_committed_only)


def _open(state: SharePartitionState, log_start: int, end: int) -> Iterable[tuple[int, int, int]]:
    """First offset, last offset and delivery count; neighbours with the same count are merged."""
    left = (
        StateRange(max(range_.first, log_start), range_.last, StoredState.AVAILABLE, range_.deliveries)
        for range_ in state.open_ranges(end)
        if range_.last >= log_start
    )
    return [(range_.first, range_.last, range_.deliveries) for range_ in join_equal(left)]


async def _first_starts(
    router: Router, unread: Sequence[TopicPartition], reset: str, is_committed_only: bool
) -> Mapping[TopicPartition, int]:
    """Where the group would start reading."""
    if not unread:
        return {}
    match reset.lower().split(":"):
        case ["earliest"]:
            return await log_offsets(router, unread, EARLIEST)
        case ["by_duration", duration]:
            since = int(wall_time() * 1000) - _milliseconds(duration)
            found = await log_offsets(router, unread, since)
            late = [place for place, offset in found.items() if offset < 0]
            ends = await log_offsets(router, late, LATEST) if late else {}
            return found | ends
        case ["latest"] | [""]:
            return await log_offsets(router, unread, LATEST, is_committed_only=is_committed_only)
    raise KshareError(f"the group's {_RESET} is {reset!r}, which this version of kshare doesn't know")


def _milliseconds(duration: str) -> int:
    match = _DURATION.fullmatch(duration)
    if match is None:
        raise KshareError(f"the group's {_RESET} has an invalid duration: {duration!r}")
    return int(sum(float(part or 0) * unit for part, unit in zip(match.groups(), _MS, strict=True)))
