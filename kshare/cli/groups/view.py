"""Shows groups: lists, offsets with lag, members, states, configs. Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from kshare.admin.client import AdminClient
from kshare.admin.results import GroupDescription, PartitionProgress, TopicPartition
from kshare.admin.routing import Router
from kshare.cli.cluster.connection import Cluster
from kshare.cli.cluster.known_names import group_explained
from kshare.cli.terminal.screen import Screen
from kshare.cli.terminal.table import print_rows, show, show_json
from kshare.errors import KshareError
from kshare.monitor.troubles import troubles, unknown_lags
from kshare.wording import counted


def show_list(cluster: Cluster, states: Sequence[str], every_type: bool, is_json: bool) -> None:
    types = () if every_type else ("share",)
    found = cluster.run(lambda admin: admin.list_groups(types=types, states=states))
    rows = [(group.group, group.type, group.state) for group in found]
    print_rows(is_json, found, ["GROUP", "TYPE", "STATE"], rows, nothing="no visible groups")


def show_groups(
    cluster: Cluster, names: Sequence[str], parts: Sequence[str], verbose: bool, is_json: bool
) -> None:
    """Show the named groups, or all, with the chosen parts."""
    found = cluster.run(lambda admin: _collect(admin, names, parts))
    if "offsets" in parts:
        described = [group.group for group, _, _ in found]
        staged = cluster.run_routed(lambda router: _staged(router, described))
        found = [(group, offsets, staged[group.group]) for group, offsets, _ in found]
    screen = Screen()
    if is_json:
        show_json(screen, [_as_json(*group, parts) for group in found])
    elif not found:
        screen.line("no visible share groups")
    else:
        for index, part in enumerate(parts):
            if index:
                screen.line()
            _PARTS[part](screen, found, verbose)
    screen.done()


def show_config(cluster: Cluster, group: str, is_json: bool) -> None:
    found = cluster.run(lambda admin: admin.group_config(group))
    rows = [(entry.name, entry.value, entry.source, _bounds(entry.lowest, entry.highest)) for entry in found]
    print_rows(is_json, found, ["SETTING", "VALUE", "SOURCE", "BOUNDS"], rows)


Staged = dict[str, int | None]
"""Journal → records that a query of Spark has staged in it: accepted, and not processed yet. None: can't be read."""
GroupParts = list[tuple[GroupDescription, list[PartitionProgress], Staged]]


async def _staged(router: Router, groups: Sequence[str]) -> dict[str, Staged]:
    """By group. Only the names of journals that can't be read tell which group they belong to."""
    from kshare.spark.journal.inspection import all_journals
    from kshare.spark.journal.settings import is_usual_topic

    staged: dict[str, Staged] = {group: {} for group in groups}
    found, unreadable = await all_journals(router)
    for journal in found:
        if journal.ranges and journal.contents.group in staged:
            staged[journal.contents.group][journal.place] = sum(map(len, journal.ranges))
    for topic in unreadable:
        for group in groups:
            if is_usual_topic(topic, group):
                staged[group][f"topic {topic}"] = None
    return staged


async def _collect(admin: AdminClient, names: Sequence[str], parts: Sequence[str]) -> GroupParts:
    chosen = names or [listed.group for listed in await admin.list_groups()]
    found: GroupParts = []
    for name in dict.fromkeys(chosen):
        try:
            group = await admin.describe_share_group(name)
        except KshareError as error:
            raise await group_explained(error, name, lambda: admin.list_groups(types=())) from error
        found.append((group, await admin.share_group_progress(name) if "offsets" in parts else [], {}))
    return found


def _show_state(screen: Screen, found: GroupParts, verbose: bool) -> None:
    heads = ["GROUP", "STATE", "COORDINATOR", "EPOCH", "ASSIGNMENT", "ASSIGNOR", "MEMBERS"]
    rows = [
        (
            group.group,
            group.state,
            f"{group.coordinator_address} ({group.coordinator})" if verbose else group.coordinator,
            group.epoch,
            group.assignment_epoch,
            group.assignor,
            len(group.members),
        )
        for group, _, _ in found
    ]
    show(screen, heads, rows, ["COORDINATOR", "EPOCH", "ASSIGNMENT", "MEMBERS"])


def _show_members(screen: Screen, found: GroupParts, verbose: bool) -> None:
    heads = ["GROUP", "MEMBER", "CLIENT", "HOST", "EPOCH", "ASSIGNED", "RACK", "TOPICS"]
    shown = slice(None if verbose else -2)
    rows: list[list[object]] = [
        [
            group.group,
            member.member_id,
            member.client_id,
            member.host,
            member.epoch,
            _assigned(member.assignment),
            member.rack,
            " ".join(member.topics),
        ][shown]
        for group, _, _ in found
        for member in group.members
    ]
    if rows:
        show(screen, heads[shown], rows, ["EPOCH"])
    _show_without(screen, (group.group for group, _, _ in found if not group.members), "members")


def _show_offsets(screen: Screen, found: GroupParts, verbose: bool) -> None:
    """EPOCH is the leader epoch with which the partition's state was last stored."""
    heads = ["GROUP", "TOPIC", "PARTITION", *(["EPOCH"] if verbose else []), "START", "LAG"]
    rows = [
        (
            *(group.group, offset.topic, offset.partition),
            *((offset.leader_epoch,) if verbose else ()),
            *(offset.start_offset, offset.lag),
        )
        for group, offsets, _ in found
        for offset in offsets
    ]
    if rows:
        show(screen, heads, rows, ["PARTITION", "EPOCH", "START", "LAG"])
    _show_without(screen, (group.group for group, offsets, _ in found if not offsets), "offsets")
    for group, offsets, staged in found:
        unknown = unknown_lags(offsets)
        texts = [*troubles(group.group, offsets, group.members, time.time()), *([unknown] if unknown else ())]
        for text in texts:
            screen.paragraph((f"{group.group}  ", "bold"), text, 2)
        for journal, count in staged.items():
            if count is None:
                name = journal.removeprefix("topic ")
                text = f"the journal in {journal} can't be read, see `kshare spark journal inspect {name}`"
            else:
                records = counted(count, "record")
                text = f"{records} of a Spark query staged in {journal}: accepted, not processed yet"
            screen.paragraph((f"{group.group}  ", "bold"), text, 2)


def _show_without(screen: Screen, groups: Iterable[str], what: str) -> None:
    for group in groups:
        screen.line(f"group {group} has no {what}")


_PARTS = {"state": _show_state, "members": _show_members, "offsets": _show_offsets}


def _as_json(
    group: GroupDescription,
    offsets: Sequence[PartitionProgress],
    staged: Staged,
    parts: Sequence[str],
) -> dict[str, Any]:
    form = asdict(group)
    members = form.pop("members")
    if "state" not in parts:
        form = {"group": group.group}
    if "members" in parts:
        form["members"] = members
    if "offsets" in parts:
        form["offsets"] = [asdict(offset) for offset in offsets]
        form["staged"] = staged
    return form


def _assigned(partitions: Sequence[TopicPartition]) -> str | None:
    """For example: orders:0,1 returns:0"""
    topics: dict[str, list[str]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(str(number))
    return " ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in topics.items()) or None


def _bounds(lowest: str | None, highest: str | None) -> str | None:
    if lowest is None and highest is None:
        return None
    return f"{lowest or ''} to {highest or ''}".strip()
