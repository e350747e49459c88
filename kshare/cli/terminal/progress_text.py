"""Describes what blocks a share-partition: a full in-flight window, or records that retention removed.

All commands use the same sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kshare.admin.results import PartitionProgress
from kshare.cli.terminal.wording import counted


def troubles(found: Iterable[PartitionProgress], *, has_members: bool = True) -> Iterator[str]:
    """One line for each problem, for below a table. Without members, nobody holds records of a full window."""
    for one in found:
        if has_members and one.is_window_full:
            yield full_window(one)
        if one.removed:
            yield removed(one)


def full_window(one: PartitionProgress) -> str:
    return (
        f"{name_of(one)}: in-flight window full: {one.window_span} of {one.window_limit} offsets, from offset "
        f"{one.start_offset} on, which isn't settled; {counted(one.waiting, 'record')} behind it "
        f"{'waits' if one.waiting == 1 else 'wait'}"
    )


def removed(one: PartitionProgress) -> str:
    were = "was" if one.removed == 1 else "were"
    return (
        f"{name_of(one)}: {counted(one.removed, 'record')} before offset {one.log_start_offset} {were} removed from "
        "the topic (retention or DeleteRecords) before the group settled them"
    )


def name_of(one: PartitionProgress) -> str:
    return f"{one.topic}[{one.partition}]"


def how_long(one: PartitionProgress, now: float) -> str:
    """How long the start offset hasn't moved; empty if unknown. `now` is in seconds since 1970."""
    if one.start_since is None:
        return ""
    return f"offset {one.start_offset} has been the first unsettled one for at least {duration(now - one.start_since)}"


def duration(seconds: float) -> str:
    seconds = max(0.0, seconds)
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
