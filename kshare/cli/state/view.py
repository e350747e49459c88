"""Draws a share-partition for the terminal: a bar of its offsets, counts of their states, and its offset ranges."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from kshare.admin.results import PartitionProgress
from kshare.cli.terminal.screen import FAINT, PROBLEM, Part
from kshare.monitor.picture import Picture, Sign, Standing, partition_name, sign_of, state_name
from kshare.monitor.troubles import lag_unknown, troubles
from kshare.protocol.json_form import uuid_text
from kshare.state.share_records import StateRange
from kshare.wording import span

PictureLine = tuple[Part, ...]

_ACKNOWLEDGED, _ARCHIVED, _UNTOUCHED, _OFTEN = "#", "x", ".", "+"
_SIGNS = {
    Standing.ACKNOWLEDGED: _ACKNOWLEDGED,
    Standing.ARCHIVED: _ARCHIVED,
    Standing.NOT_RELEASED: _UNTOUCHED,
}
_STYLES = {_ACKNOWLEDGED: "green", _ARCHIVED: "red", _UNTOUCHED: FAINT}
_REDELIVERED = "bold yellow"
_NARROWEST = 10
LEGEND: tuple[PictureLine, ...] = (
    (
        (_ACKNOWLEDGED, _STYLES[_ACKNOWLEDGED]),
        (f" {Standing.ACKNOWLEDGED.text}  ", ""),
        (_ARCHIVED, _STYLES[_ARCHIVED]),
        (f" {Standing.ARCHIVED.text}  ", ""),
        (_UNTOUCHED, _STYLES[_UNTOUCHED]),
        (f" {Standing.NOT_RELEASED.text}", ""),
    ),
    (("1-9", _REDELIVERED), (f" {Standing.RELEASED.text} (delivery count)", "")),
)


def lines(
    picture: Picture,
    width: int,
    now: float,
    *,
    is_wrapped: bool,
    is_detailed: bool,
    stall: str | None = None,
) -> Iterator[PictureLine]:
    """`now` is in seconds since 1970. `is_wrapped`: what is wrong is wrapped at `width`, not on one line.

    `stall`: that the share-partition stands still, which a single reading can't tell.
    """
    yield _head(picture)
    yield from _bar(picture, width)
    yield _counts(picture)
    yield from _troubles(picture, width if is_wrapped else None, now, stall)
    if is_detailed:
        state = picture.state
        yield (
            (f"    state epoch {state.state_epoch}  leader epoch {state.leader_epoch}  ", FAINT),
            (f"snapshot {state.snapshot_epoch}  updates since {state.updates}", FAINT),
        )
        for range_ in picture.ranges():
            yield _range(range_)


def _troubles(picture: Picture, width: int | None, now: float, stall: str | None) -> Iterator[PictureLine]:
    """Wrapped, because what to do comes last."""
    found = [picture.progress] if picture.progress else []
    said = [*troubles(picture.where.group, found, picture.members, now), *([stall] if stall else [])]
    for text in said:
        text = text.partition(": ")[2]
        rows = [text] if width is None else wrap(text, max(_NARROWEST, width - 6), break_on_hyphens=False)
        for index, row in enumerate(rows):
            yield (("      " if index else "    ! ", PROBLEM), (row, PROBLEM))


def note(text: str, width: int | None) -> Iterator[PictureLine]:
    """What isn't about a single share-partition. Wrapped at `width`, because what to do comes last."""
    for row in [f"! {text}"] if width is None else wrap(f"! {text}", width, subsequent_indent="  "):
        yield ((row, PROBLEM),)


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
        "ranges": [range_json(range_) for range_ in picture.ranges()],
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
    left, right = f"    {picture.start} ", f" {picture.last}"
    bar = picture.bar(max(_NARROWEST, width - len(left) - len(right)))
    if bar is None:
        return
    has_room = len(left) + len(bar.signs) + len(right) + 16 < width
    yield (
        (left, FAINT),
        *((sign, _STYLES.get(sign, _REDELIVERED)) for sign in map(_sign, bar.signs)),
        (right, FAINT),
        (f"  {bar.per_sign} per char" if bar.per_sign > 1 and has_room else "", FAINT),
    )


def _sign(sign: Sign) -> str:
    """The character to draw."""
    if sign.standing is not Standing.RELEASED:
        return _SIGNS[sign.standing]
    return str(sign.deliveries) if sign.deliveries <= 9 else _OFTEN


def _counts(picture: Picture) -> PictureLine:
    text = "  ".join(f"{count} {standing.text}" for standing, count in picture.counts().items())
    return ((f"    {text or _nothing(picture)}", ""),)


def _nothing(picture: Picture) -> str:
    if not picture.is_undecided:
        return "nothing after the start"
    reason = lag_unknown(picture.progress) if picture.progress else None
    return f"lag unknown: {reason}" if reason else "nothing was settled or released yet"


def _range(one: StateRange) -> PictureLine:
    sign = _sign(sign_of(one))
    deliveries = f"  deliveries {one.deliveries}" if one.deliveries else ""
    return (
        (f"    {span(one.first, one.last):>16}  ", ""),
        (sign, _STYLES.get(sign, _REDELIVERED)),
        (f" {state_name(one.state)}{deliveries}", ""),
    )
