"""Names every byte of a dissection: its spans as a flat list of values, which JSON can carry and a page can show.

Decides which span names a byte: the narrowest one. If the key or value of a record is itself a message of Kafka's, that
is a field of this message. Decompressed bytes aren't in the input: each section of them is a buffer of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from kshare.dissect import ByteSpan, Dissection
from kshare.traffic.exchange_text import StyledText
from kshare.wire.tree_lines import TreeLine, tree_lines
from kshare.wire.value_text import (
    note_or_problem,
    page_line,
    page_text,
    parent_and_name,
    style_of,
    value_text,
)


@dataclass(frozen=True, slots=True)
class NamedSpan:
    """A named range of bytes."""

    id: int
    """Its place in `NamedBytes.spans`."""
    parent: int | None
    buffer: int
    """The place of its buffer in `NamedBytes.buffers`."""
    offset: int
    """From the start of its buffer."""
    length: int
    path: str
    """For example responses[0].partitions[1].errorCode."""
    label: str
    """Its name in its parent. A length has the name of its field: clientId.length."""
    kind: str
    """The schema's type (int32, string, []TopicData, a struct's name), or the role of framing bytes (length, tags)."""
    value: str
    """As text, shortened; empty if it is divided, or can't be read. Secrets are masked."""
    style: str
    """The style of its value and of its bytes, by kshare/wire/styles.py."""
    note: str
    """What the value means, such as the name of an error code."""
    problem: str
    """What is wrong with it, such as a checksum that doesn't match."""
    about: str
    """What the field means, from the schema."""
    depth: int | None
    """How deep it is in the tree. None if it has no line there: lengths, counts, empty tags."""
    line: list[StyledText]
    """Its line in the tree, as `kshare decode` shows it, without offsets; empty if it has none."""

    @property
    def end(self) -> int:
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class NamedBuffer:
    """Bytes, and the spans that name them."""

    data: bytes
    """Secrets are overwritten with asterisks."""
    cover: list[int]
    """Ids of spans that cover the bytes without gap or overlap, in order."""
    starts: list[int]
    """Where each of them begins."""
    packed_in: int | None
    """The span of the compressed bytes, if these were decompressed."""


@dataclass(frozen=True, slots=True)
class NamedProblem:
    """Something that is malformed, and where."""

    path: str
    offset: int
    """From the start of the first buffer."""
    reason: str


@dataclass(frozen=True, slots=True)
class NamedBytes:
    """All spans of a dissection, parents before their parts."""

    title: str
    """What it is: ShareFetchRequest v2."""
    buffers: list[NamedBuffer]
    """The first contains the bytes that were given; the others what was decompressed."""
    spans: list[NamedSpan]
    problems: list[NamedProblem]
    is_cut: bool
    """A limit was reached, so the rest of the bytes is one span."""


def named_bytes(reading: Dissection, title: str = "") -> NamedBytes:
    """Mask credentials first, and explain records."""
    namer = _Namer({id(line.span): line for line in tree_lines(reading.root, 0)})
    namer.add_buffer(reading, None)
    problems = [NamedProblem(problem.path, problem.offset, problem.reason) for problem in reading.problems]
    if not title:
        title = f"{reading.message} v{reading.version}" if reading.message else reading.root.kind
    return NamedBytes(title, namer.buffers, namer.spans, problems, reading.is_cut)


class _Namer:
    """Goes through the spans of a dissection, and of what was decompressed or explained in it."""

    def __init__(self, lines: dict[int, TreeLine]) -> None:
        self.buffers: list[NamedBuffer] = []
        self.spans: list[NamedSpan] = []
        self._lines = lines

    def add_buffer(self, reading: Dissection, packed_in: int | None) -> None:
        number = len(self.buffers)
        self.buffers.append(NamedBuffer(bytes(reading.data), [], [], packed_in))
        self._add(reading.root, packed_in, number, 0)

    def _add(self, span: ByteSpan, parent: int | None, buffer: int, start: int) -> None:
        own = self._name(span, parent, buffer, start)
        for part in span.parts:
            self._add(part, own, buffer, start)
        inflated = span.inflated
        if span.parts or not span.length:
            return
        if inflated is not None and span.kind == "bytes":
            for part in inflated.root.parts:
                self._add(part, own, buffer, start + span.offset)
            return
        self.buffers[buffer].cover.append(own)
        self.buffers[buffer].starts.append(start + span.offset)
        if inflated is not None:
            self.add_buffer(inflated, own)

    def _name(self, span: ByteSpan, parent: int | None, buffer: int, start: int) -> int:
        number = len(self.spans)
        line = self._lines.get(id(span))
        is_leaf = not span.parts and span.kind != "unread" and span.is_complete
        value = value_text(span) if is_leaf or (span.kind in ("string", "bytes") and span.is_complete) else ""
        self.spans.append(
            NamedSpan(
                id=number,
                parent=parent,
                buffer=buffer,
                offset=start + span.offset,
                length=span.length,
                path=span.path,
                label=parent_and_name(span)[1] or span.kind,
                kind=span.kind,
                value=page_text(value),
                style=style_of(span),
                note="" if span.problem else note_or_problem(span),
                problem=span.problem,
                about=span.about,
                depth=line.depth if line else None,
                line=page_line(line.parts) if line else [],
            )
        )
        return number
