"""The tree of a dissection as lines: one for each field, with its byte range, value and meaning.

Lengths, counts and empty tags get no line; the hex view shows them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kshare.dissect import ByteSpan
from kshare.traffic.exchange_text import StyledText
from kshare.wire.value_text import FRAMING, note_or_problem, style_of, value_text


@dataclass(frozen=True, slots=True)
class TreeLine:
    """A line of a tree, with the span that it shows."""

    span: ByteSpan
    depth: int
    start: int
    """What the span's offset is relative to: a place in the input, or in unpacked bytes."""
    is_unpacked: bool

    @property
    def range(self) -> str:
        """For example 12-15; +12-15 in unpacked bytes."""
        first = self.start + self.span.offset
        sign = "+" if self.is_unpacked else ""
        if self.span.length < 2:
            return f"{sign}{first}" if self.span.length else ""
        return f"{sign}{first}-{first + self.span.length - 1}"

    @property
    def parts(self) -> list[StyledText]:
        """Name, value or size or type, and note."""
        span = self.span
        inner = _content(span)
        name = span.name or span.kind
        parts = [(name, "name")]
        if _has_value(span):
            parts += [(" ", "plain"), (value_text(span), style_of(inner))]
        elif span.kind.startswith("[]") and span.is_complete:
            parts += [(f" {'null' if span.value is None else f'({span.value})'}", "faint")]
        elif span.kind not in (name, "unread"):
            parts += [(f" {span.kind}", "faint")]
        if note := note_or_problem(span) or note_or_problem(inner):
            is_problem = span.problem or span.kind == "unread"
            parts += [("  ", "plain"), (note, "error" if is_problem else "note")]
        return parts


def tree_lines(span: ByteSpan, start: int) -> Iterator[TreeLine]:
    """The lines of a span and all spans in it. `start` is where its buffer begins in the input."""
    yield from _lines(TreeLine(span, 0, start, False))


def _lines(line: TreeLine) -> Iterator[TreeLine]:
    span, depth = line.span, line.depth
    if span.kind == "tags" and span.is_complete and len(span.parts) == 1:
        return
    if span.path:
        yield line
        depth += 1
    for part in span.parts:
        if part.kind in FRAMING and not part.problem:
            continue
        inner = TreeLine(part, depth, line.start, line.is_unpacked)
        if part.path == span.path and not part.parts:  # the content of a string, which already has a line
            yield from _inner_lines(inner)
            continue
        yield from _lines(inner)
    if not span.parts:
        yield from _inner_lines(TreeLine(span, depth, line.start, line.is_unpacked))


def _inner_lines(line: TreeLine) -> Iterator[TreeLine]:
    """Lines of unpacked records, or of a record's decoded key or value."""
    span = line.span
    if span.inflated is None:
        return
    is_stored_plain = span.kind == "bytes"
    start = line.start + span.offset if is_stored_plain else 0
    is_unpacked = line.is_unpacked if is_stored_plain else True
    for part in span.inflated.root.parts:
        is_body = part.path == span.path
        for inner in part.parts if is_body else [part]:
            yield from _lines(TreeLine(inner, line.depth, start, is_unpacked))


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
