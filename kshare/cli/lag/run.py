"""Runs `kshare lag`: adds up the lag of share groups, once or repeatedly."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import anyio

from kshare.admin import groups, offsets
from kshare.admin.log_offsets import partitions_of
from kshare.admin.progress import ProgressReader
from kshare.admin.results import GroupDescription, PartitionOffset, PartitionProgress
from kshare.admin.routing import Router
from kshare.cli.cluster.connection import Cluster
from kshare.cli.cluster.known_names import group_explained, require_topics
from kshare.cli.terminal.arguments import Topics, is_chosen
from kshare.cli.terminal.screen import Part, Screen
from kshare.cli.terminal.table import show_json, table_lines
from kshare.errors import BrokerError
from kshare.monitor.troubles import total_lag, unknown_lags
from kshare.protocol.error_codes import ErrorCode

_HEADS = ["GROUP", "STATE", "MEMBERS", "PARTITIONS", "LAG"]


@dataclass(frozen=True, slots=True)
class GroupLag:
    """A share group and its progress in the chosen partitions."""

    group: GroupDescription
    partitions: Sequence[PartitionProgress]

    @property
    def lag(self) -> int | None:
        return total_lag(self.partitions) if self.partitions else None

    def row(self) -> tuple[object, ...]:
        group = self.group
        return group.group, group.state, len(group.members), len(self.partitions), self.lag

    def form(self) -> dict[str, object]:
        return {
            "group": self.group.group,
            "state": self.group.state,
            "members": len(self.group.members),
            "lag": self.lag,
            "partitions": [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "start_offset": partition.start_offset,
                    "end_offset": partition.end_offset,
                    "lag": partition.lag,
                }
                for partition in self.partitions
            ],
        }


def run_lag(
    cluster: Cluster, names: Sequence[str], topics: Topics | None, interval: float | None, is_json: bool
) -> None:
    """`names` are groups; if empty, all share groups are shown."""

    async def work(router: Router) -> None:
        if topics:
            await require_topics(cluster.settings, topics, suggest_creation=False)
            chosen = {topic: numbers for topic, numbers in topics.items() if numbers is not None}
            if chosen:
                await partitions_of(router, chosen)
        reader = _Reader(router, names, topics)
        screen = Screen()
        with screen.redrawn() if interval is not None and not is_json else nullcontext():
            while True:
                _show(screen, await reader.read(), topics, is_json=is_json, is_watched=interval is not None)
                screen.done()
                if interval is None:
                    return
                await anyio.sleep(interval)

    cluster.run_routed(work)


class _Reader:
    def __init__(self, router: Router, names: Sequence[str], topics: Topics | None) -> None:
        self._router = router
        self._names = list(dict.fromkeys(names))
        self._topics = topics
        self._progress = ProgressReader(router)

    async def read(self) -> list[GroupLag]:
        """It is an error if a named group doesn't exist. Others may be deleted after they were listed."""
        described: dict[str, GroupDescription] = {}
        group_offsets: dict[str, list[PartitionOffset]] = {}
        listed = [] if self._names else await groups.list_groups(self._router, ("share",), ())
        for name in self._names or [group.group for group in listed]:
            try:
                group = await groups.describe_share_group(self._router, name)
                rows = await offsets.share_group_offsets(self._router, name, None)
            except BrokerError as error:
                if self._names:
                    raise await group_explained(
                        error, name, lambda: groups.list_groups(self._router, (), ())
                    ) from error
                if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                    raise
                continue
            rows = [row for row in rows if is_chosen(self._topics, row.topic, row.partition)]
            if rows or self._names or self._topics is None:
                described[name], group_offsets[name] = group, rows
        progress = await self._progress.read(group_offsets)
        return [GroupLag(group, progress[name]) for name, group in described.items()]


def _show(
    screen: Screen, found: Sequence[GroupLag], topics: Topics | None, *, is_json: bool, is_watched: bool
) -> None:
    if is_json and is_watched:
        screen.text(json.dumps([group.form() for group in found]) + "\n")
    elif is_json:
        show_json(screen, [group.form() for group in found])
    elif screen.is_redrawn:
        screen.redraw([line] for line in _table(screen, found, topics))
    else:
        for line in _table(screen, found, topics):
            screen.line(line)
        if is_watched:
            screen.line()


def _table(screen: Screen, found: Sequence[GroupLag], topics: Topics | None) -> Iterable[Part]:
    if found:
        lines = [*table_lines(screen, _HEADS, [lag.row() for lag in found], _HEADS[2:])]
        unknown = [(lag.group.group, unknown_lags(lag.partitions)) for lag in found]
        return [*lines, *((f"{name}  {said}", "") for name, said in unknown if said is not None)]
    return [("no share group reads these topics" if topics else "no share groups", "")]
