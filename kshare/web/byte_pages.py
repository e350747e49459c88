"""Lays out named bytes for a page: rows of hex, and the tree of the fields that have a byte among them.

A page shows as many bytes, so that it stays light whatever was given. Decompressed bytes follow those that were given,
in sections of their own.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from kshare.web.paging import Page, page_of
from kshare.wire.named_bytes import NamedBuffer, NamedBytes, NamedSpan

PAGE_BYTES = 1024
ROW_BYTES = 16
MOST_FIELDS = 1500
"""In a section. More can only be there if they have no bytes."""
_TITLE = 160
_DOT = "\N{MIDDLE DOT}"


@dataclass(slots=True)
class FieldLine:
    """A line of the tree."""

    span: NamedSpan
    range: str
    parts: list[FieldLine] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class HexRun:
    """Bytes in one row that have the same name."""

    text: str
    title: str
    style: str
    is_odd: bool
    """Neighbours differ in it, so that one sees where one ends."""
    field: int
    """The id of the span whose line in the tree tells most about it."""


@dataclass(frozen=True, slots=True)
class HexRow:
    offset: str
    runs: list[HexRun]
    gap: str
    """Fills the last row up."""
    text: str
    """The bytes as ASCII."""


@dataclass(frozen=True, slots=True)
class Section:
    """Bytes of one buffer."""

    packed_in: NamedSpan | None
    """What they were decompressed from."""
    first: int
    last: int
    size: int
    """Of the buffer."""
    rows: list[HexRow]
    fields: list[FieldLine]
    is_cut: bool
    """There are more fields than a page shows."""


@dataclass(frozen=True, slots=True)
class BytePage:
    named: NamedBytes
    sections: list[Section]
    page: Page[int]


def byte_page(named: NamedBytes, number: str | None) -> BytePage:
    """The page of this number, or the nearest one."""
    total = sum(len(buffer.data) for buffer in named.buffers)
    page = page_of(range(total), number, PAGE_BYTES)
    first, after = (page.number - 1) * PAGE_BYTES, min(page.number * PAGE_BYTES, total)
    sections, at = [], 0
    for place, buffer in enumerate(named.buffers):
        begin, end = max(first - at, 0), min(after - at, len(buffer.data))
        if begin < end or (not total and not place):
            sections.append(_section(named, place, begin, end))
        at += len(buffer.data)
    return BytePage(named, sections, page)


def _section(named: NamedBytes, place: int, begin: int, end: int) -> Section:
    buffer = named.buffers[place]
    shown = [span for span in named.spans if span.depth is not None and _is_in(span, place, begin, end)]
    packed_in = None if buffer.packed_in is None else named.spans[buffer.packed_in]
    return Section(
        packed_in,
        begin,
        end - 1,
        len(buffer.data),
        [_row(named, buffer, at, min(at + ROW_BYTES, end)) for at in range(begin, end, ROW_BYTES)],
        _tree(shown[:MOST_FIELDS]),
        len(shown) > MOST_FIELDS,
    )


def _is_in(span: NamedSpan, buffer: int, begin: int, end: int) -> bool:
    return span.buffer == buffer and span.offset < end and max(span.end, span.offset + 1) > begin


def _tree(spans: list[NamedSpan]) -> list[FieldLine]:
    roots: list[FieldLine] = []
    open_fields: list[FieldLine] = []
    for span in spans:
        while open_fields and (open_fields[-1].span.depth or 0) >= (span.depth or 0):
            open_fields.pop()
        one = FieldLine(span, _range(span))
        (open_fields[-1].parts if open_fields else roots).append(one)
        open_fields.append(one)
    return roots


def _range(span: NamedSpan) -> str:
    if span.length < 2:
        return str(span.offset) if span.length else ""
    return f"{span.offset}-{span.end - 1}"


def _row(named: NamedBytes, buffer: NamedBuffer, begin: int, end: int) -> HexRow:
    runs, at = [], begin
    place = bisect_right(buffer.starts, begin) - 1
    while at < end:
        span = named.spans[buffer.cover[place]]
        after = min(span.end, end)
        runs.append(
            HexRun(
                buffer.data[at:after].hex(" "),
                title_of(span),
                span.style,
                place % 2 == 1,
                _line_of(named, span),
            )
        )
        at, place = after, place + 1
    data = buffer.data[begin:end]
    return HexRow(
        f"{begin:06x}",
        runs,
        "   " * (ROW_BYTES - len(data)),
        "".join(chr(byte) if 0x20 <= byte < 0x7F else _DOT for byte in data),
    )


def title_of(span: NamedSpan) -> str:
    """Where it is, its name, type and value."""
    text = f"{_range(span)} {span.path or span.kind}".strip()
    if span.path:
        text += f" {span.kind}"
    if span.value:
        text += f" {span.value}"
    if span.problem or span.note:
        text += f" ({span.problem or span.note})"
    return text if len(text) <= _TITLE else text[: _TITLE - 1] + "…"


def _line_of(named: NamedBytes, span: NamedSpan) -> int:
    """A length has no line: its field has."""
    one = span
    while one.depth is None and one.parent is not None:
        one = named.spans[one.parent]
    return span.id if one.depth is None else one.id
