"""Groups in trouble, over 45 minutes, as series that the exporter would export, and the alerts that they raise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kshare.exporter.counters import GroupCounters
from kshare.exporter.metrics import ExporterState, exporter_values, report_values
from kshare.exporter.report import report
from kshare.monitor.dead_letter_topics import DeadLetterFlaw
from kshare.monitor.snapshot import GroupReading
from tests.exporter.readings import NOW, group, partition, snapshot
from tests.helpers.promql import STEP_S, Labels, Series

STEPS = 180
END_S = STEPS * STEP_S

Trouble = Callable[[int], tuple[GroupReading, bool]]
"""The group at a step, and whether the exporter can read the cluster."""


def _steady(step: int, **changes: Any) -> GroupReading:
    """A group that accepts ten records in each step."""
    settings = {
        name: changes.pop(name)
        for name in ("members", "most_members", "dead_letter_topic")
        if name in changes
    }
    done = 10 * step
    usual: dict[str, Any] = {"start": done, "end": done + 20, "lag": 20, "oldest": NOW + step * STEP_S - 5}
    usual |= {"deliveries": done, "accepted": done, "retention": 3600.0, "window": (20, 200)}
    return group("g", partition("g", **(usual | changes)), **settings)


def _never_settled(step: int, lag: int | None) -> GroupReading:
    """Its members hold everything since the first record."""
    held: dict[str, Any] = {"start": None, "expected_start": 0, "end": 900, "deliveries": 0, "accepted": 0}
    return _assigned(_steady(step, lag=lag, changed_at=NOW - 1000, oldest=NOW - 1000, retention=None, **held))


def _assigned(reading: GroupReading) -> GroupReading:
    """With the partition assigned to all members."""
    members = tuple(replace(member, assignment=(("orders", 0),)) for member in reading.members)
    return replace(reading, members=members)


TROUBLES: dict[str, tuple[Trouble, set[str]]] = {
    "none": (lambda step: (_steady(step), True), set()),
    "pinned": (
        lambda step: (_steady(step, start=5, end=900, lag=700, window=(195, 200), deliveries=5), True),
        {"ShareGroupWindowPinned"},
    ),
    "stalled": (
        lambda step: (
            _assigned(
                _steady(
                    step,
                    start=5,
                    end=900,
                    lag=700,
                    deliveries=5,
                    accepted=5,
                    changed_at=NOW - 1000,
                    oldest=NOW - 1000,
                    retention=None,
                )
            ),
            True,
        ),
        {"ShareGroupStalled"},
    ),
    "stalled from the start": (lambda step: (_never_settled(step, lag=900), True), {"ShareGroupStalled"}),
    "stalled from the start, which is a guess": (
        lambda step: (_never_settled(step, lag=None), True),
        {"ShareGroupStalled"},
    ),
    "full but moving": (lambda step: (_steady(step, end=10 * step + 900, window=(195, 200)), True), set()),
    "old": (
        lambda step: (_steady(step, oldest=NOW + step * STEP_S - 3000), True),
        {"ShareGroupRetentionNear"},
    ),
    "removed": (
        lambda step: (_with_removed(_steady(step), 3), True),
        {"ShareGroupRecordsRemoved"},
    ),
    "nobody": (lambda step: (_steady(step, members=0), True), {"ShareGroupWithoutMembers"}),
    "growing": (lambda step: (_steady(step, lag=20 + step), True), {"ShareGroupLagGrows"}),
    "failing": (
        lambda step: (_steady(step, deliveries=10 * step, released=9 * step, accepted=step), True),
        {"ShareGroupRedeliversMuch"},
    ),
    "given up": (
        lambda step: (_steady(step, archived={5: step // 10}), True),
        {"ShareGroupArchivesWithoutDeadLetters"},
    ),
    "given up, with a dead-letter topic": (
        lambda step: (_steady(step, archived={1: step // 10}, dead_letter_topic="dlq.orders"), True),
        set(),
    ),
    "given up, with a dead-letter topic that does not exist": (
        lambda step: (
            replace(
                _steady(step, archived={1: step // 10}, dead_letter_topic="dlq.orders"),
                dead_letter_flaw=DeadLetterFlaw.MISSING,
            ),
            True,
        ),
        {"ShareGroupArchivesWithoutDeadLetters"},
    ),
    "no room": (lambda step: (_steady(step, members=3, most_members=3), True), {"ShareGroupFull"}),
    "not readable": (
        lambda step: (GroupReading("g", "Stable", problem="GROUP_AUTHORIZATION_FAILED"), True),
        {"ShareGroupsUnreadable"},
    ),
    "away": (lambda step: (_steady(step), step < STEPS // 2), {"ShareGroupExporterDown"}),
}


def _with_removed(one: GroupReading, count: int) -> GroupReading:
    (row,) = one.partitions
    assert row.progress is not None
    return replace(one, partitions=(replace(row, progress=replace(row.progress, removed=count)),))


def points_of(trouble: Trouble) -> dict[str, dict[Labels, list[float | None]]]:
    """ExportedMetric → labels → its value at each step."""
    counters, before = GroupCounters(), None
    found: dict[str, dict[Labels, list[float | None]]] = {}
    for step in range(STEPS + 1):
        reading, is_up = trouble(step)
        now = snapshot(reading, moment=step * STEP_S)
        values = [*exporter_values(ExporterState(is_up, now.time, 0.1, 11 * step, 0))]
        if is_up:
            counters.update(now)
            values += report_values(report(now, before, counters), has_partitions=True)
            before = now
        for value in values:
            labels = frozenset(zip(value.metric.labels, value.labels, strict=True))
            rows = found.setdefault(value.metric.name, {}).setdefault(labels, [None] * (STEPS + 1))
            rows[step] = float(value.value)
    return found


def series_of(trouble: Trouble) -> Series:
    def at(values: list[float | None]) -> Callable[[float], float | None]:
        return lambda seconds: values[round(seconds / STEP_S)] if seconds >= 0 else None

    return {
        name: {labels: at(values) for labels, values in rows.items()}
        for name, rows in points_of(trouble).items()
    }
