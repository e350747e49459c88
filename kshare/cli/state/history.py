"""The records of `__share_group_state`, a line each: how a share-partition came to its state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kshare.admin.share_states import Entry
from kshare.cli.state.view import Line, name_of, range_json, state_name
from kshare.cli.terminal.colours import FAINT
from kshare.cli.terminal.times import iso_time
from kshare.cli.terminal.wording import span
from kshare.protocol.json_form import uuid_text
from kshare.protocol.messages import ShareSnapshotValue, ShareUpdateValue
from kshare.state.share_records import UNDECIDED, StateRange, ranges_said

_SUPERSEDED = "of a snapshot that was superseded: without effect"


class History:
    """Lines of entries; a day is named when it begins."""

    def __init__(self) -> None:
        self._day = ""

    def lines(self, entry: Entry, topic: str | None) -> Iterator[Line]:
        day, _, time = iso_time(entry.timestamp).partition("T")
        if day != self._day:
            self._day = day
            yield ((f"{day} (UTC)", FAINT),)
        told = entry.told
        yield (
            (f"{time.removesuffix('Z'):12}  ", FAINT),
            (f"{told.where.group} {name_of(told.where, topic)}  ", "cyan"),
            (f"{_kind(entry)}  ", "bold"),
            (_changes(entry), "" if told.is_applied else FAINT),
        )


def as_json(entry: Entry, topic: str | None) -> dict[str, Any]:
    told = entry.told
    after = told.after
    return {
        "offset": entry.offset,
        "timestamp": entry.timestamp,
        "group": told.where.group,
        "topic": topic,
        "topic_id": uuid_text(told.where.topic_id),
        "partition": told.where.partition,
        "kind": _kind(entry).partition(" ")[0],
        "is_applied": told.is_applied,
        "said": [range_json(one) for one in _said(entry)],
        "start_offset": None if after is None or after.start_offset == UNDECIDED else after.start_offset,
        "ranges": [range_json(one) for one in after.ranges] if after else [],
    }


def _kind(entry: Entry) -> str:
    match entry.told.message:
        case ShareSnapshotValue(snapshot_epoch=epoch):
            return f"snapshot {epoch}"
        case ShareUpdateValue():
            return "update"
    return "deleted"


def _changes(entry: Entry) -> str:
    told = entry.told
    if told.message is None:
        return ""
    if not told.is_applied:
        return _SUPERSEDED
    before = told.before.start_offset if told.before else None
    after = told.after.start_offset if told.after else None
    said = [_text(one) for one in _said(entry)]
    if after != before:
        text = "undecided" if after == UNDECIDED else str(after)
        said.insert(0, f"start {text}" if before in (None, UNDECIDED) else f"start {before} to {text}")
    return ", ".join(said) or "nothing new"


def _said(entry: Entry) -> list[StateRange]:
    message = entry.told.message
    return ranges_said(message) if message else []


def _text(one: StateRange) -> str:
    return f"{span(one.first, one.last)} {state_name(one.state)} ({one.deliveries})"
