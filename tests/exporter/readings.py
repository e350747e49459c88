"""Makes readings of groups, as a Collector returns them."""

from __future__ import annotations

from typing import Any

from kshare.admin.results import Member, PartitionProgress
from kshare.monitor.settings import GroupSettings
from kshare.monitor.snapshot import GroupReading, PartitionReading, Snapshot

NOW = 1_800_000_000.0


def partition(
    group: str,
    number: int = 0,
    *,
    start: int | None = 0,
    end: int = 0,
    lag: int | None = 0,
    oldest: float | None = None,
    retention: float | None = None,
    archived: dict[int, int] | None = None,
    window: tuple[int, int] | None = None,
    **counts: Any,
) -> PartitionReading:
    """`window`: its size and its limit. Counts of deliveries are known if one of them is given."""
    if counts or archived is not None:
        counts = {"deliveries": 0, "accepted": 0, "released": 0, **counts}
    span, limit = window or (None, None)
    progress = PartitionProgress(
        "orders",
        number,
        start,
        lag,
        0,
        0,
        end,
        window_end=None if span is None or start is None else start + span,
        window_limit=limit,
        archived=tuple((archived or {}).items()),
        **counts,
    )
    return PartitionReading(
        group, "orders", number, start, end, lag, 0, 0, oldest, progress, retention_s=retention
    )


def group(
    name: str, *partitions: PartitionReading, members: int = 1, problem: str | None = None, **settings: Any
) -> GroupReading:
    found = tuple(Member(f"m{number}", "c", "h", None, 1, ("orders",), ()) for number in range(members))
    return GroupReading(name, "Stable", found, partitions, problem, GroupSettings(**settings))


def snapshot(*groups: GroupReading, moment: float = 0.0, missing: tuple[str, ...] = ()) -> Snapshot:
    return Snapshot(NOW + moment, moment, groups, missing)
