"""Figures computed from two readings: sums, rates, ages; as rows to sort, show or write as JSON. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kshare.admin.results import PartitionProgress
from kshare.cli.terminal.progress_text import full_window, removed
from kshare.cli.top.snapshot import GroupReading, PartitionReading, Snapshot

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
    """What blocks partitions, and which groups don't exist."""

    @property
    def summary(self) -> dict[str, int]:
        groups = self.rows[TableView.GROUPS]
        return {
            "groups": len(groups),
            "members": len(self.rows[TableView.MEMBERS]),
            "lag": int(sum(one["lag"] for one in groups if isinstance(one["lag"], int))),
        }


def figures(now: Snapshot, before: Snapshot | None) -> Figures:
    earlier = {} if before is None else _by_place(before)
    seconds = now.moment - before.moment if before else 0.0
    partitions = {
        group.group: [
            _partition(one, earlier.get((one.group, one.topic, one.partition)), seconds, now.time)
            for one in group.partitions
        ]
        for group in now.groups
    }
    return Figures(
        now.time,
        {
            TableView.GROUPS: [_group(one, partitions[one.group]) for one in now.groups],
            TableView.PARTITIONS: [row for rows in partitions.values() for row in rows],
            TableView.MEMBERS: [row for one in now.groups for row in _members(one)],
        },
        (*now.missing, *_notes(now, earlier)),
    )


def _notes(now: Snapshot, earlier: Mapping[PartitionKey, PartitionReading]) -> Iterator[str]:
    """A full window is reported only if its start offset didn't move between two readings."""
    for group in now.groups:
        for one in group.partitions:
            before, progress = earlier.get((one.group, one.topic, one.partition)), one.progress
            if progress is None:
                continue
            is_unchanged = before is not None and before.start == one.start
            if group.members and progress.is_window_full and is_unchanged:
                yield f"{one.group}  {full_window(progress)}"
            if progress.removed:
                yield f"{one.group}  {removed(progress)}"


def _by_place(reading: Snapshot) -> dict[PartitionKey, PartitionReading]:
    return {
        (one.group, one.topic, one.partition): one for group in reading.groups for one in group.partitions
    }


def _partition(one: PartitionReading, before: PartitionReading | None, seconds: float, now: float) -> Row:
    return {
        "group": one.group,
        "topic": one.topic,
        "partition": one.partition,
        "start": one.start,
        "lag": one.lag,
        "redelivered": one.redelivered,
        "most_deliveries": one.most_deliveries,
        "settled_per_second": _rate(_settled(one), _settled(before), seconds),
        "written_per_second": _rate(one.end, before.end if before else None, seconds),
        "oldest_seconds": None if one.oldest is None else max(0.0, now - one.oldest),
        **_window(one.progress),
    }


def _window(progress: PartitionProgress | None) -> Row:
    return {
        "window": progress.window_span if progress else None,
        "window_limit": progress.window_limit if progress else None,
        "is_window_full": progress.is_window_full if progress else None,
        "removed": progress.removed if progress else None,
    }


def _settled(one: PartitionReading | None) -> int | None:
    return None if one is None or one.lag is None else one.end - one.lag


def _rate(now: int | None, before: int | None, seconds: float) -> float | None:
    """The rate is 0 if offsets were reset backwards, and None if it is unknown."""
    if now is None or before is None or seconds <= 0:
        return None
    return max(0, now - before) / seconds


def _group(group: GroupReading, partitions: list[Row]) -> Row:
    return {
        "group": group.group,
        "state": group.problem or group.state,
        "members": len(group.members),
        "partitions": len(partitions),
        "lag": _over(sum, partitions, "lag"),
        "redelivered": _over(sum, partitions, "redelivered"),
        "most_deliveries": _over(max, partitions, "most_deliveries"),
        "settled_per_second": _over(sum, partitions, "settled_per_second"),
        "written_per_second": _over(sum, partitions, "written_per_second"),
        "oldest_seconds": _over(max, partitions, "oldest_seconds"),
        "full_windows": sum(row["is_window_full"] is True for row in partitions),
    }


def _over(fold: Callable[[Iterable[float]], float], rows: Iterable[Row], name: str) -> float | None:
    """Combine the known values; None if there are none."""
    known = [value for row in rows if isinstance(value := row[name], int | float)]
    return fold(known) if known else None


def _members(group: GroupReading) -> list[Row]:
    return [
        {
            "group": group.group,
            "member": one.member_id,
            "client": one.client_id,
            "host": one.host.removeprefix("/"),
            "epoch": one.epoch,
            "partitions": len(one.assignment),
        }
        for one in group.members
    ]
