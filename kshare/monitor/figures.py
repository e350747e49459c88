"""Figures computed from two readings: sums, rates, ages; as rows to sort, show or write as JSON. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kshare.admin.results import PartitionProgress
from kshare.monitor.near_limits import near_limits, near_limits_line
from kshare.monitor.snapshot import GroupReading, PartitionReading, Snapshot
from kshare.monitor.stalls import assigned_members, is_pinned, stalled_for
from kshare.monitor.tracking_groups import is_tracking
from kshare.monitor.troubles import lag_unknown, pinned, removed, stalled, unknown_lags

Cell = str | int | float | None
Row = dict[str, Cell]
PartitionKey = tuple[str, str, int]
"""Group, topic, partition."""


class TableView(StrEnum):
    GROUPS = "groups"
    PARTITIONS = "partitions"
    MEMBERS = "members"


@dataclass(frozen=True, slots=True)
class Column:
    """A figure's heading, its name in JSON, and what it means."""

    head: str
    name: str
    about: str
    is_number: bool = True


_GROUP = Column("GROUP", "group", "the share group", False)
_LAG = Column("LAG", "lag", "records that aren't settled yet")
_REDELIVERED = Column("REDELIV", "redelivered", "of these, delivered before and now available again")
_MAX_DELIVERIES = Column(
    "MAXDEL", "most_deliveries", "the highest delivery count of these; a limit archives them"
)
_DONE = Column("DONE/s", "settled_per_second", "records settled per second, since the last update")
_IN = Column("IN/s", "written_per_second", "records written per second")
_OLDEST = Column("OLDEST", "oldest_seconds", "age of the first record that isn't settled")

COLUMNS: Mapping[TableView, tuple[Column, ...]] = {
    TableView.GROUPS: (
        _GROUP,
        Column("STATE", "state", "Stable with members, Empty without", False),
        Column("MEM", "members", "members"),
        Column("PARTS", "partitions", "partitions that the group reads"),
        *(_LAG, _REDELIVERED, _MAX_DELIVERIES, _DONE, _IN, _OLDEST),
    ),
    TableView.PARTITIONS: (
        _GROUP,
        Column("TOPIC", "topic", "", False),
        Column("P", "partition", "partition"),
        Column("START", "start", "the start offset: all records before it are settled"),
        *(_LAG, _REDELIVERED, _MAX_DELIVERIES, _DONE, _IN, _OLDEST),
    ),
    TableView.MEMBERS: (
        _GROUP,
        Column("MEMBER", "member", "the member's id", False),
        Column("CLIENT", "client", "the client id", False),
        Column("HOST", "host", "the client's address", False),
        Column("EPOCH", "epoch", "the member epoch: rises with each assignment"),
        Column("PARTS", "partitions", "partitions assigned to it"),
    ),
}

UNKNOWN = (
    "Brokers don't tell which records are locked, by which member, and since when: REDELIV counts what they "
    "have stored. kshare trace shows locks as they are acquired and released."
)


@dataclass(frozen=True, slots=True)
class Figures:
    time: float
    rows: Mapping[TableView, list[Row]]
    notes: tuple[str, ...] = ()
    """What blocks partitions, which groups don't exist, and which are close to a limit."""
    partitions: Mapping[str, list[Row]] = field(default_factory=dict)
    """The rows of partitions by group."""

    @property
    def summary(self) -> dict[str, int]:
        """Totals, without groups that keep track of dead letters: their lag is no backlog."""
        groups = [group for group in self.rows[TableView.GROUPS] if not group["tracks_dead_letters"]]
        return {
            "groups": len(groups),
            "members": sum(int(group["members"] or 0) for group in groups),
            "lag": int(sum(group["lag"] for group in groups if isinstance(group["lag"], int))),
            "unknown_lags": sum(group["lag_unknown"] is not None for group in groups),
        }


def figures(now: Snapshot, before: Snapshot | None) -> Figures:
    earlier = {} if before is None else by_place(before)
    seconds = now.moment - before.moment if before else 0.0
    partitions = {
        group.group: [
            _partition(
                partition,
                earlier.get((partition.group, partition.topic, partition.partition)),
                seconds,
                now.time,
                group,
            )
            for partition in group.partitions
        ]
        for group in now.groups
    }
    groups = [_group(group, partitions[group.group]) for group in now.groups]
    limits = near_limits_line(
        (group.group, _near_limits(group, row)) for group, row in zip(now.groups, groups, strict=True)
    )
    return Figures(
        now.time,
        {
            TableView.GROUPS: groups,
            TableView.PARTITIONS: [row for rows in partitions.values() for row in rows],
            TableView.MEMBERS: [row for group in now.groups for row in _members(group)],
        },
        (*now.missing, *_notes(now, partitions), *([limits] if limits else ())),
        partitions,
    )


def _notes(now: Snapshot, rows: Mapping[str, list[Row]]) -> Iterator[str]:
    """What stands still is only reported if nothing moved between two readings."""
    for group in now.groups:
        yield from _unknown_lag(group)
        for reading, row in zip(group.partitions, rows[group.group], strict=True):
            progress, quiet = reading.progress, row["stalled_seconds"]
            if progress is None:
                continue
            if row["is_window_pinned"]:
                holders = assigned_members(group, progress)
                yield f"{reading.group}  {pinned(reading.group, progress, holders, now.time)}"
            elif isinstance(quiet, float):
                yield f"{reading.group}  {stalled(progress, assigned_members(group, progress), quiet)}"
            if progress.removed:
                yield f"{reading.group}  {removed(progress)}"


def _unknown_lag(group: GroupReading) -> Iterator[str]:
    """Only if records were written, as far as can be told: otherwise the lag is hardly anything else than 0."""
    written = [
        partition.progress
        for partition in group.partitions
        if partition.progress is not None and partition.first is not None
    ]
    if (said := unknown_lags(written)) is not None:
        yield f"{group.group}  {said}"


def _near_limits(group: GroupReading, row: Row) -> list[str]:
    if group.problem is not None:
        return []
    share = row["oldest_share"]
    return [
        *near_limits(
            len(group.members), group.settings.most_members, share if isinstance(share, float) else None
        )
    ]


def by_place(reading: Snapshot) -> dict[PartitionKey, PartitionReading]:
    return {
        (partition.group, partition.topic, partition.partition): partition
        for group in reading.groups
        for partition in group.partitions
    }


def _partition(
    one: PartitionReading, before: PartitionReading | None, seconds: float, now: float, group: GroupReading
) -> Row:
    # Without a lag, the first unsettled record is only a guess.
    oldest = None if one.oldest is None or one.lag is None else max(0.0, now - one.oldest)
    return {
        "group": one.group,
        "topic": one.topic,
        "partition": one.partition,
        "start": one.start,
        "end": one.end,
        "lag": one.lag,
        "lag_unknown": lag_unknown(one.progress) if one.progress else None,
        "redelivered": one.redelivered,
        "most_deliveries": one.most_deliveries,
        "settled_per_second": _rate(_settled(one), _settled(before), seconds),
        "written_per_second": _rate(one.end, before.end if before else None, seconds),
        "oldest_seconds": oldest,
        "retention_seconds": one.retention_s,
        "oldest_share": oldest / one.retention_s if oldest is not None and one.retention_s else None,
        **_window(one.progress),
        "is_window_pinned": bool(group.members) and is_pinned(before, one) if one.progress else None,
        "stalled_seconds": _stalled_for(one, before, now, group),
        **_outcomes(one.progress, before.progress if before else None, seconds),
    }


def _stalled_for(
    one: PartitionReading, before: PartitionReading | None, now: float, group: GroupReading
) -> float | None:
    """None if it isn't stalled. A full window is another matter: there, it is known what stands in the way."""
    quiet = stalled_for(before, one, now)
    if quiet is None or one.progress is None or is_pinned(before, one):
        return None
    return quiet if assigned_members(group, one.progress) else None


def _window(progress: PartitionProgress | None) -> Row:
    span, limit = (progress.window_span, progress.window_limit) if progress else (None, None)
    return {
        "window": span,
        "window_limit": limit,
        "window_use": span / limit if span is not None and limit else None,
        "is_window_full": progress.is_window_full if progress else None,
        "start_since": progress.start_since if progress else None,
        "removed": progress.removed if progress else None,
    }


def _outcomes(now: PartitionProgress | None, before: PartitionProgress | None, seconds: float) -> Row:
    """What became of deliveries: counts as far back as the stored state goes, and rates."""
    row: Row = {}
    for name in ("deliveries", "accepted", "released", "archived"):
        count = _count(now, name)
        row[name] = count
        row[f"{name}_per_second"] = _rate(count, _count(before, name), seconds)
    return row


def _count(progress: PartitionProgress | None, name: str) -> int | None:
    if progress is None or progress.deliveries is None:
        return None
    if name == "archived":
        return sum(count for _, count in progress.archived)
    count: int | None = getattr(progress, name)
    return count


def _settled(one: PartitionReading | None) -> int | None:
    return None if one is None or one.lag is None else one.end - one.lag


def _rate(now: int | None, before: int | None, seconds: float) -> float | None:
    """The rate is 0 if offsets were reset backwards, and None if it is unknown."""
    if now is None or before is None or seconds <= 0:
        return None
    return max(0, now - before) / seconds


_SUMS = (
    "lag",
    "redelivered",
    "settled_per_second",
    "written_per_second",
    *(
        f"{name}{end}"
        for name in ("deliveries", "accepted", "released", "archived")
        for end in ("", "_per_second")
    ),
)
_HIGHEST = ("most_deliveries", "oldest_seconds", "oldest_share", "window_use")


def _group(group: GroupReading, partitions: list[Row]) -> Row:
    row: Row = {
        "group": group.group,
        "state": group.problem or group.state,
        "members": len(group.members),
        "partitions": len(partitions),
        **{name: _over(sum, partitions, name) for name in _SUMS},
        **{name: _over(max, partitions, name) for name in _HIGHEST},
        "stalled_partitions": sum(row["stalled_seconds"] is not None for row in partitions),
        "full_windows": sum(row["is_window_full"] is True for row in partitions),
        "pinned_windows": sum(row["is_window_pinned"] is True for row in partitions),
        "most_members": group.settings.most_members if group.problem is None else None,
        "lag_unknown": next((row["lag_unknown"] for row in partitions if row["lag_unknown"]), None),
        "tracks_dead_letters": is_tracking(group.group),
        "dead_letter_topic": group.settings.dead_letter_topic,
        "dead_letters": group.dead_letters,
        "dead_letter_flaw": group.dead_letter_flaw,
    }
    return row | {"redelivery_share": _share(row["released"], row["deliveries"])}


def _share(part: Cell, whole: Cell) -> float | None:
    return part / whole if isinstance(part, int) and isinstance(whole, int) and whole else None


def _over(fold: Callable[[Iterable[float]], float], rows: Iterable[Row], name: str) -> float | None:
    """Combine the known values; None if there are none."""
    known = [value for row in rows if isinstance(value := row[name], int | float)]
    return fold(known) if known else None


def _members(group: GroupReading) -> list[Row]:
    return [
        {
            "group": group.group,
            "member": member.member_id,
            "client": member.client_id,
            "host": member.host,
            "epoch": member.epoch,
            "partitions": len(member.assignment),
        }
        for member in group.members
    ]
