"""Checks whether retention is about to remove records that groups haven't settled, by age and by size.

found                                             | level
--------------------------------------------------+--------
70 % of retention.ms, or of retention.bytes, used | warning
80 %, or all of it                                | problem
unsettled records in a topic that is compacted    | ok, but said: a newer record with the same key replaces them

A topic that keeps records for ever (`retention.ms=-1`, or `cleanup.policy=compact`) has no limit. Costs one
DescribeConfigs request for 200 topics in which something waits, and for topics with a `retention.bytes` one
DescribeLogDirs request for each broker that leads their partitions. What is behind an offset in bytes is estimated from
the offsets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kshare.admin import configs, log_sizes
from kshare.admin.configs import ConfigResource
from kshare.admin.results import TopicPartition
from kshare.doctor.check_result import CheckResult, ok, trouble, warning
from kshare.doctor.cluster_info import ClusterInfo
from kshare.doctor.commands import topic_config_command
from kshare.doctor.group_settings import check_of, chosen_groups
from kshare.doctor.readings import Readings, lag_of, progress_of
from kshare.monitor.retention import (
    WARNING_FROM,
    Nearness,
    Retention,
    by_age,
    by_size,
    bytes_from,
)
from kshare.monitor.severities import RETENTION_NEAR_FROM, Trouble
from kshare.monitor.snapshot import PartitionReading
from kshare.monitor.troubles import name_of
from kshare.wording import counted, duration

_SETTINGS = ["cleanup.policy", "retention.ms", "retention.bytes"]


@dataclass(frozen=True, slots=True)
class _Endangered:
    reading: PartitionReading
    nearness: Nearness
    reason: str
    """What is used up, in words."""
    setting: str
    larger: int
    """A value of the setting that helps."""


async def retention(info: ClusterInfo) -> AsyncIterator[CheckResult]:
    readings = await info.readings(await chosen_groups(info))
    waiting = [
        partition for group in readings.groups.values() for partition in group.partitions if lag_of(partition)
    ]
    names = sorted({partition.topic for partition in waiting})
    found = await configs.describe_many(info.router, ConfigResource.TOPIC, names, _SETTINGS)
    kept = {name: Retention.of(settings) for name, settings in found.items()}
    for finding in _compacted(waiting, kept):
        yield finding
    for finding in _worst(info, _by_age(waiting, kept, readings.now.time)):
        yield finding
    by_size = {name for name, topic in kept.items() if topic.is_deleting and topic.size is not None}
    limited = [partition for partition in waiting if partition.topic in by_size]
    places = {(partition.topic, partition.partition) for partition in limited}
    sizes = await log_sizes.log_sizes(info.router, places)
    for finding in _worst(info, _by_size(limited, kept, sizes, readings)):
        yield finding


def _by_age(
    waiting: Iterable[PartitionReading], kept: Mapping[str, Retention], now: float
) -> Iterable[_Endangered]:
    for partition in waiting:
        topic = kept.get(partition.topic)
        if topic is None or not topic.is_deleting or topic.milliseconds is None or partition.oldest is None:
            continue
        age = max(0.0, now - partition.oldest)
        reason = (
            f"is {duration(age)} old, and the topic keeps records for {duration(topic.milliseconds / 1000)}"
        )
        larger = max(2 * topic.milliseconds, 1000)
        yield _Endangered(partition, by_age(age, topic.milliseconds), reason, "retention.ms", larger)


def _by_size(
    limited: Iterable[PartitionReading],
    kept: Mapping[str, Retention],
    sizes: Mapping[TopicPartition, int],
    readings: Readings,
) -> Iterable[_Endangered]:
    seconds = readings.now.moment - readings.before.moment
    for partition in limited:
        size, limit = sizes.get((partition.topic, partition.partition)), kept[partition.topic].size
        first = progress_of(partition).log_start_offset
        if size is None or limit is None or first is None or partition.first is None:
            continue
        behind = bytes_from(partition.first, first, partition.end, size)
        before = readings.earlier(partition)
        growth = None
        if before is not None and seconds > 0:
            growth = bytes_from(before.end, first, partition.end, size) / seconds
        reason = (
            f"has about {_bytes(behind)} behind it, and the topic keeps {_bytes(limit)} of each partition"
        )
        yield _Endangered(
            partition, by_size(behind, limit, growth), reason, "retention.bytes", max(2 * limit, 1)
        )


def _worst(info: ClusterInfo, found: Iterable[_Endangered]) -> Iterable[CheckResult]:
    """One result for each topic of a group: the partition that is closest, and how many others are close."""
    by_topic: dict[tuple[str, str], list[_Endangered]] = defaultdict(list)
    for endangered in found:
        if endangered.nearness.part >= WARNING_FROM:
            by_topic[endangered.reading.group, endangered.reading.topic].append(endangered)
    for close in by_topic.values():
        yield _judged(info, sorted(close, key=lambda one: -one.nearness.part))


def _judged(info: ClusterInfo, close: Sequence[_Endangered]) -> CheckResult:
    worst, others = close[0], len(close) - 1
    reading, nearness = worst.reading, worst.nearness
    if nearness.part >= 1:
        when = "they may be removed at any time"
    elif nearness.left is None:
        when = "they are removed when more is written"
    else:
        pace = " at this pace" if worst.setting == "retention.bytes" else ""
        when = f"they may be removed in {duration(nearness.left)}{pace}"
    are = "is" if others == 1 else "are"
    more = f" ({counted(others, 'more partition')} of the topic {are} close to it)" if others else ""
    text = (
        f"{name_of(progress_of(reading))}: the first of {counted(lag_of(reading), 'unsettled record')}, offset "
        f"{reading.first}, {worst.reason} ({worst.setting}): {when}, settled or not{more}"
    )
    todo = (
        "# settle them sooner: more members, or members that do more at once; or keep records longer:",
        topic_config_command(info.server, reading.topic, f"{worst.setting}={worst.larger}"),
    )
    if nearness.part < RETENTION_NEAR_FROM:
        return warning(check_of(reading.group), text, *todo)
    return trouble(Trouble.RETENTION_NEAR, check_of(reading.group), text, *todo)


def _compacted(waiting: Iterable[PartitionReading], kept: Mapping[str, Retention]) -> Iterable[CheckResult]:
    compacting = {
        (partition.group, partition.topic)
        for partition in waiting
        if partition.topic in kept and kept[partition.topic].is_compacting
    }
    for group, topic in sorted(compacting):
        yield ok(
            check_of(group),
            f"{topic} is compacted: a newer record with the same key replaces records, settled or not",
        )


def _bytes(size: float) -> str:
    """For example: 1.5 GB"""
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= limit:
            return f"{size / limit:.3g} {unit}"
    return f"{size:.0f} bytes"
