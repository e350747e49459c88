"""Shows the records of `__share_group_state`, one line each: how a share-partition reached its state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kshare.admin.share_states import StateEntry
from kshare.cli.state.view import PictureLine, range_json
from kshare.cli.terminal.screen import FAINT
from kshare.monitor.picture import partition_name, state_name
from kshare.protocol.json_form import uuid_text
from kshare.protocol.messages import ShareSnapshotValue, ShareUpdateValue
from kshare.state.share_records import UNINITIALIZED_START_OFFSET, StateRange, ranges_in
from kshare.wording import iso_time, span

_SUPERSEDED = "belongs to a superseded snapshot: no effect"


class History:
    """Makes the lines of entries, and a line for each new day."""

    def __init__(self) -> None:
        self._day = ""

    def lines(self, entry: StateEntry, topic: str | None) -> Iterator[PictureLine]:
        day, _, time = iso_time(entry.timestamp).partition("T")
        if day != self._day:
            self._day = day
            yield ((f"{day} (UTC)", FAINT),)
        reported = entry.reported
        yield (
            (f"{time.removesuffix('Z'):12}  ", FAINT),
            (f"{reported.where.group} {partition_name(reported.where, topic)}  ", "cyan"),
            (f"{_kind(entry)}  ", "bold"),
            (_changes(entry), "" if reported.is_applied else FAINT),
        )


def as_json(entry: StateEntry, topic: str | None) -> dict[str, Any]:
    reported = entry.reported
    after = reported.after
    return {
        "offset": entry.offset,
        "timestamp": entry.timestamp,
        "group": reported.where.group,
        "topic": topic,
        "topic_id": uuid_text(reported.where.topic_id),
        "partition": reported.where.partition,
        "kind": _kind(entry).partition(" ")[0],
        "is_applied": reported.is_applied,
        "said": [range_json(range_) for range_ in _ranges(entry)],
        "start_offset": None
        if after is None or after.start_offset == UNINITIALIZED_START_OFFSET
        else after.start_offset,
        "ranges": [range_json(range_) for range_ in after.ranges] if after else [],
    }


def _kind(entry: StateEntry) -> str:
    match entry.reported.message:
        case ShareSnapshotValue(snapshot_epoch=epoch):
            return f"snapshot {epoch}"
        case ShareUpdateValue():
            return "update"
    return "deleted"


def _changes(entry: StateEntry) -> str:
    reported = entry.reported
    if reported.message is None:
        return ""
    if not reported.is_applied:
        return _SUPERSEDED
    before = reported.before.start_offset if reported.before else None
    after = reported.after.start_offset if reported.after else None
    changes = [
        f"{span(range_.first, range_.last)} {state_name(range_.state)} ({range_.deliveries})"
        for range_ in _ranges(entry)
    ]
    if after != before:
        text = "undecided" if after == UNINITIALIZED_START_OFFSET else str(after)
        begun = "" if before in (None, UNINITIALIZED_START_OFFSET) else f"{before} to "
        changes.insert(0, f"start {begun}{text}")
    return ", ".join(changes) or "no change"


def _ranges(entry: StateEntry) -> list[StateRange]:
    message = entry.reported.message
    return ranges_in(message) if message else []
