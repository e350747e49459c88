"""The tree view: one line per field, with its byte range, value and meaning.

Lengths, counts and empty tags are left out; the hex view shows them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kshare.cli.terminal.colours import FAINT, NAME, NOTE, PROBLEM
from kshare.cli.terminal.dissection.value_text import note_or_problem, style_of, value_text
from kshare.cli.terminal.screen import Screen
from kshare.dissect import ByteSpan

_FRAMING = ("length", "count", "presence")
_RANGE_WIDTH = 11


@dataclass(frozen=True, slots=True)
class _OffsetBase:
    """What a span's offsets are relative to: the input, or unpacked bytes."""

    start: int
    width: int
    is_unpacked: bool = False

    def range(self, span: ByteSpan) -> str:
        first = self.start + span.offset
        sign = "+" if self.is_unpacked else ""
        if span.length < 2:
            return f"{sign}{first}" if span.length else ""
        return f"{sign}{first}-{first + span.length - 1}"


def draw_tree(screen: Screen, span: ByteSpan, start: int) -> None:
    last = str(start + span.end)
    for depth, one, base in _lines(span, 0, _OffsetBase(start, max(_RANGE_WIDTH, 2 * len(last) + 2))):
        _draw(screen, one, depth, base)


def _lines(span: ByteSpan, depth: int, base: _OffsetBase) -> Iterator[tuple[int, ByteSpan, _OffsetBase]]:
    """Spans that get a line."""
    if span.kind == "tags" and span.is_complete and len(span.parts) == 1:
        return
    if span.path:
        yield depth, span, base
        depth += 1
    for part in span.parts:
        if part.kind in _FRAMING and not part.problem:
            continue
        if part.path == span.path and not part.parts:  # the content of a string, which already has a line
            yield from _inner_lines(part, depth, base)
            continue
        yield from _lines(part, depth, base)
    if not span.parts:
        yield from _inner_lines(span, depth, base)


def _inner_lines(
    span: ByteSpan, depth: int, base: _OffsetBase
) -> Iterator[tuple[int, ByteSpan, _OffsetBase]]:
    """Lines of unpacked records, or of a record's decoded key or value."""
    if span.inflated is None:
        return
    is_stored_plain = span.kind == "bytes"
    inner = (
        replace(base, start=base.start + span.offset) if is_stored_plain else _OffsetBase(0, base.width, True)
    )
    for part in span.inflated.root.parts:
        is_body = part.path == span.path
        for one in part.parts if is_body else [part]:
            yield from _lines(one, depth, inner)


def _draw(screen: Screen, span: ByteSpan, depth: int, base: _OffsetBase) -> None:
    inner = _content(span)
    name = span.name or span.kind
    parts = [(base.range(span).ljust(base.width), FAINT), ("  " * depth, ""), (name, NAME)]
    if _has_value(span):
        parts += [(" ", ""), (value_text(span), style_of(inner))]
    elif span.kind.startswith("[]") and span.is_complete:
        parts += [(f" {'null' if span.value is None else f'({span.value})'}", FAINT)]
    elif span.kind not in (name, "unread"):
        parts += [(f" {span.kind}", FAINT)]
    if note := note_or_problem(span) or note_or_problem(inner):
        parts += [("  ", ""), (note, PROBLEM if span.problem or span.kind == "unread" else NOTE)]
    screen.line(*parts)


def _content(span: ByteSpan) -> ByteSpan:
    """Of strings and bytes, the part without the length."""
    for part in span.parts:
        if part.path == span.path and not part.parts:
            return part
    return span


def _has_value(span: ByteSpan) -> bool:
    if span.kind == "unread" or not span.is_complete:
        return False
    return not span.parts or span.kind in ("string", "bytes") or (span.kind == "records" and not span.value)
