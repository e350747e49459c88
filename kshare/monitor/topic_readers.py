"""Which share groups get a record that is written to a topic again, besides the one it is meant for. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from kshare.monitor.snapshot import GroupReading, Snapshot
from kshare.monitor.tracking_groups import is_tracking
from kshare.wording import counted

_MOST_NAMED = 5


def other_readers(snapshot: Snapshot, records: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A sentence for each topic that others read. `records`: topics that they are written to, and their groups."""
    meant: dict[str, set[str]] = defaultdict(set)
    for topic, group in records:
        meant[topic].add(group)
    for topic, groups in sorted(meant.items()):
        readers = {one.group for one in snapshot.groups if _reads(one, topic)}
        is_one = len(groups) == 1
        if others := sorted(readers - groups if is_one else readers):
            also = "also " if groups <= readers and is_one else ""
            they = "it gets" if len(others) == 1 else "they get"
            well = " as well" if also else "" if is_one else ", whichever group had given it up"
            yield f"{topic} is {also}read by {_named(others)}: {they} what is written to it{well}"


def _reads(group: GroupReading, topic: str) -> bool:
    """Without members, the topics that it has read: it gets the records once it has members again."""
    if is_tracking(group.group):
        return False
    if group.members:
        return any(topic in one.topics for one in group.members)
    return any(one.topic == topic for one in group.partitions)


def _named(groups: list[str]) -> str:
    more = len(groups) - _MOST_NAMED
    if more > 0:
        return f"share groups {', '.join(groups[:_MOST_NAMED])} and {counted(more, 'other')}"
    *first, last = groups
    return f"share groups {', '.join(first)} and {last}" if first else f"share group {last}"
