"""What is exported after a reading: rows of figures for groups and partitions, with counters. Pure.

The figures are those of `kshare top`, except the lag of a group: it is unknown if that of one partition is, as in
`kshare lag`. A sum of the others would be too low, and an autoscaler would stop workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kshare.exporter.counters import GroupCounters
from kshare.monitor.figures import Row, TableView, figures
from kshare.monitor.snapshot import GroupReading, Snapshot
from kshare.monitor.troubles import total_lag


@dataclass(frozen=True, slots=True)
class Report:
    time: float
    """Seconds since 1970."""
    moment: float
    """On the event loop's clock."""
    groups: Mapping[str, Row]
    partitions: tuple[Row, ...]
    unreadable: int
    """Groups that we may not describe or whose offsets we may not read, and chosen ones that don't exist."""


def report(now: Snapshot, before: Snapshot | None, counters: GroupCounters) -> Report:
    """`counters` were updated with `now`."""
    found = figures(now, before)
    return Report(
        now.time,
        now.moment,
        {
            group.group: row | _of_group(group, row) | counters.of_group(group.group)
            for group, row in zip(now.groups, found.rows[TableView.GROUPS], strict=True)
        },
        tuple(
            row
            | {"start_unmoved_seconds": _since(row["start_since"], now.time)}
            | counters.of_partition(str(row["group"]), str(row["topic"]), int(row["partition"] or 0))
            for row in found.rows[TableView.PARTITIONS]
        ),
        len(now.missing) + sum(group.problem is not None for group in now.groups),
    )


def group_lag(group: GroupReading) -> int | None:
    """None if it is unknown, for example because nothing was settled yet, and the group starts at the latest record."""
    if group.problem or group.leaderless or not group.partitions:
        return None
    return total_lag(partition.progress for partition in group.partitions if partition.progress)


def _of_group(group: GroupReading, row: Row) -> Row:
    has_dead_letter_topic = group.settings.dead_letter_topic is not None and group.dead_letter_flaw is None
    removed = [partition.progress.removed for partition in group.partitions if partition.progress is not None]
    is_visible = group.problem is None
    return {
        "lag": group_lag(group),
        "members": row["members"] if is_visible else None,
        "partitions": row["partitions"] if is_visible else None,
        "pinned_windows": row["pinned_windows"] if is_visible else None,
        "stalled_partitions": row["stalled_partitions"] if is_visible else None,
        "delivery_limit": group.settings.delivery_limit if is_visible else None,
        "has_dead_letter_topic": has_dead_letter_topic if is_visible else None,
        "removed": sum(removed) if removed else None,
    }


def _since(then: object, now: float) -> float | None:
    return max(0.0, now - then) if isinstance(then, int | float) else None
