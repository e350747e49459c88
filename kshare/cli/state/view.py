"""Draws a share-partition: a bar of its offsets, counts of their states, and its offset ranges.

A character stands for one offset, or for several if the line is too short. Then it shows the one that is furthest from
being settled, because that one keeps the start offset where it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kshare.admin.results import PartitionProgress
from kshare.cli.terminal.colours import FAINT, PROBLEM
from kshare.cli.terminal.progress_text import troubles
from kshare.cli.terminal.screen import Part
from kshare.cli.terminal.wording import span
from kshare.protocol.json_form import uuid_text
from kshare.state.share_records import (
    UNINITIALIZED_START_OFFSET,
    SharePartitionKey,
    SharePartitionState,
    StateRange,
    StoredState,
)

PictureLine = tuple[Part, ...]

_ACKNOWLEDGED, _ARCHIVED, _UNTOUCHED, _OFTEN = "#", "x", ".", "+"
_STYLES = {_ACKNOWLEDGED: "green", _ARCHIVED: "red", _UNTOUCHED: FAINT}
_REDELIVERED = "bold yellow"
_NARROWEST = 10
_NAMES = {
    StoredState.AVAILABLE: "available",
    StoredState.ACKNOWLEDGED: "acknowledged",
    StoredState.ARCHIVED: "archived",
}

LEGEND: PictureLine = (
    (_ACKNOWLEDGED, _STYLES[_ACKNOWLEDGED]),
    (" acknowledged  ", ""),
    (_ARCHIVED, _STYLES[_ARCHIVED]),
    (" archived  ", ""),
    (_UNTOUCHED, _STYLES[_UNTOUCHED]),
    (" not released  ", ""),
    ("1-9", _REDELIVERED),
    (" released (delivery count)", ""),
)


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn of a share-partition."""

    where: SharePartitionKey
    topic: str | None
    """None if its name is unknown, or the topic was deleted."""
    state: SharePartitionState
    end: int | None
    """The end offset of the topic partition; None if there is no cluster to ask."""
    progress: PartitionProgress | None = None
    """From a cluster: how many records retention removed, and how full the in-flight window is."""

    @property
    def start(self) -> int:
        """The first offset of the bar: all before it are settled, or removed."""
        reported = self.progress.start_offset if self.progress else None
        return self.state.start_offset if reported is None else reported

    @property
    def last(self) -> int:
        """The last offset that is drawn."""
        stored = self.state.window_end - 1
        return stored if self.end is None else max(stored, self.end - 1)

    @property
    def is_undecided(self) -> bool:
        return self.state.start_offset == UNINITIALIZED_START_OFFSET

    @property
    def lag(self) -> int | None:
        if self.end is None or self.is_undecided:
            return None
        return sum(one.size for one in self.state.covering(self.start, self.end - 1) if not one.is_settled)

    def ranges(self) -> Iterator[StateRange]:
        """All ranges from the start to the end."""
        return iter(()) if self.is_undecided else self.state.covering(self.start, self.last)


def partition_name(where: SharePartitionKey, topic: str | None) -> str:
    return f"{topic or uuid_text(where.topic_id)}[{where.partition}]"


def lines(picture: Picture, width: int, *, is_detailed: bool) -> Iterator[PictureLine]:
    yield _head(picture)
    yield from _bar(picture, width)
    yield _counts(picture)
    for text in troubles([picture.progress] if picture.progress else []):
        yield (("    ! ", PROBLEM), (text.partition(": ")[2], PROBLEM))
    if is_detailed:
        state = picture.state
        yield (
            (f"    state epoch {state.state_epoch}  leader epoch {state.leader_epoch}  ", FAINT),
            (f"snapshot {state.snapshot_epoch}  updates since {state.updates}", FAINT),
        )
        for one in picture.ranges():
            yield _range(one)


def as_json(picture: Picture) -> dict[str, Any]:
    state = picture.state
    return {
        "group": picture.where.group,
        "topic": picture.topic,
        "topic_id": uuid_text(picture.where.topic_id),
        "partition": picture.where.partition,
        "start_offset": None if picture.is_undecided else picture.start,
        "end_offset": picture.end,
        "lag": picture.lag,
        "removed": picture.progress.removed if picture.progress else 0,
        "window": _window(picture.progress) if picture.progress else None,
        "state_epoch": state.state_epoch,
        "leader_epoch": state.leader_epoch,
        "snapshot_epoch": state.snapshot_epoch,
        "updates": state.updates,
        "complete_count": None if state.complete_count < 0 else state.complete_count,
        "ranges": [range_json(one) for one in picture.ranges()],
    }


def _window(progress: PartitionProgress) -> dict[str, Any]:
    """The limit is only known if records wait behind those in flight."""
    return {
        "span": progress.window_span,
        "limit": progress.window_limit,
        "open": progress.window_open,
        "waiting": progress.waiting,
        "is_full": progress.is_window_full,
    }


def range_json(one: StateRange) -> dict[str, Any]:
    return {
        "first": one.first,
        "last": one.last,
        "state": state_name(one.state),
        "deliveries": one.deliveries,
    }


def state_name(number: int) -> str:
    """The name of a state, which may be newer than this code."""
    return _NAMES[StoredState(number)] if number in _NAMES else f"state {number}"


def _head(picture: Picture) -> PictureLine:
    start = "not decided yet" if picture.is_undecided else str(picture.start)
    text = f"  start {start}"
    if picture.end is not None:
        text += f"  end {picture.end}"
    if picture.lag is not None:
        text += f"  lag {picture.lag}"
    return (
        (picture.where.group, "bold"),
        (f"  {partition_name(picture.where, picture.topic)}", "bold cyan"),
        (text, ""),
    )


def _bar(picture: Picture, width: int) -> Iterator[PictureLine]:
    first, count = picture.start, picture.last - picture.start + 1
    if picture.is_undecided or count <= 0:
        return
    left, right = f"    {first} ", f" {picture.last}"
    bar_width = max(_NARROWEST, width - len(left) - len(right))
    per_sign = -(-count // bar_width)
    signs = [""] * -(-count // per_sign)
    weights = [(-1, 0)] * len(signs)
    for one in picture.ranges():
        weight, sign = _sign(one)
        for at in range((one.first - first) // per_sign, (one.last - first) // per_sign + 1):
            if weight > weights[at]:
                weights[at], signs[at] = weight, sign
    yield (
        (left, FAINT),
        *((sign, _STYLES.get(sign, _REDELIVERED)) for sign in signs),
        (right, FAINT),
        (
            f"  {per_sign} per char"
            if per_sign > 1 and len(left) + len(signs) + len(right) + 16 < width
            else "",
            FAINT,
        ),
    )


def _sign(one: StateRange) -> tuple[tuple[int, int], str]:
    """How far from settled it is, and the character to draw."""
    if one.state == StoredState.ACKNOWLEDGED:
        return (0, 0), _ACKNOWLEDGED
    if one.state == StoredState.ARCHIVED:
        return (1, 0), _ARCHIVED
    if not one.deliveries:
        return (2, 0), _UNTOUCHED
    return (3, one.deliveries), str(one.deliveries) if one.deliveries <= 9 else _OFTEN


def _counts(picture: Picture) -> PictureLine:
    counts: Counter[str] = Counter()
    for one in picture.ranges():
        weight, _ = _sign(one)
        counts[("acknowledged", "archived", "not released", "released")[weight[0]]] += one.size
    text = "  ".join(f"{count} {name}" for name, count in counts.items())
    return ((f"    {text or 'nothing after the start'}", ""),)


def _range(one: StateRange) -> PictureLine:
    _, sign = _sign(one)
    deliveries = f"  deliveries {one.deliveries}" if one.deliveries else ""
    return (
        (f"    {span(one.first, one.last):>16}  ", ""),
        (sign, _STYLES.get(sign, _REDELIVERED)),
        (f" {state_name(one.state)}{deliveries}", ""),
    )
