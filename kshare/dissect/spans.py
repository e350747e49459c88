"""The result of a dissection: named spans of bytes, and problems.

Decides how spans nest and how one is found by its path. Never reads bytes: layouts and `SpanReader` do.

A span that isn't divided is a leaf; the leaves cover the bytes without gap or overlap. A divided span (a struct, an
array, a string with its length) covers exactly its parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kshare.protocol.decompression_budget import DecompressionBudget

_MOST_SPANS = 500_000
_MOST_UNPACKED = 64 * 1024 * 1024


@dataclass(slots=True)
class ByteSpan:
    """A named range of bytes.

    `kind` is the schema's type (`int32`, `string`, `[]TopicData`, a struct's name) or the role of framing bytes
    (`length`, `count`, `presence`, `tags` ...). A string's content has the path of the string itself.
    """

    path: str
    kind: str
    offset: int
    length: int
    buffer: memoryview = field(repr=False)  # the whole buffer: slices are made on demand
    value: object = None
    note: str = ""  # what the value means: an error's name, the bits of the attributes
    about: str = ""  # what the field means, from the schema
    problem: str = ""  # a problem that didn't stop reading
    parts: list[ByteSpan] = field(default_factory=list)
    is_complete: bool = True
    inflated: Dissection | None = None  # the decompressed bytes, with offsets from their own start

    @property
    def raw(self) -> memoryview:
        """The span's bytes, not copied."""
        return self.buffer[self.offset : self.offset + self.length]

    @property
    def end(self) -> int:
        return self.offset + self.length

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    def leaves(self) -> Iterator[ByteSpan]:
        """The leaves of this span, in the order of their bytes."""
        waiting = [self]
        while waiting:
            span = waiting.pop()
            if span.parts:
                waiting.extend(reversed(span.parts))
            elif span.length:
                yield span

    def walk(self) -> Iterator[tuple[int, ByteSpan]]:
        """This span and all spans in it with their depth, parents before their parts."""
        waiting = [(0, self)]
        while waiting:
            depth, span = waiting.pop()
            yield depth, span
            waiting.extend((depth + 1, part) for part in reversed(span.parts))


@dataclass(slots=True)
class DissectionLimit:
    """What may still be made of bytes that nobody vouches for. Dissections that are given the same limit share it."""

    spans: int
    unpacked: DecompressionBudget

    @classmethod
    def usual(cls) -> DissectionLimit:
        """For one frame, or one batch of a segment: more than brokers send by default, and some hundred megabytes."""
        return cls(_MOST_SPANS, DecompressionBudget(_MOST_UNPACKED))


@dataclass(frozen=True, slots=True)
class DissectionProblem:
    """Something that is malformed, and where."""

    path: str
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path or 'frame'} at byte {self.offset}: {self.reason}"


@dataclass(slots=True)
class Dissection:
    """The dissection of one buffer.

    `error` is where reading had to stop (the bytes after it are one leaf `unread`). `problems` contains it, and those
    that didn't stop reading, such as a wrong checksum.
    """

    root: ByteSpan
    message: str = ""
    version: int | None = None
    header: ByteSpan | None = None
    body: ByteSpan | None = None
    error: DissectionProblem | None = None
    has_surplus: bool = False
    """The message is complete, and `error` says that bytes are left over after it."""
    is_cut: bool = False
    """The limit of spans was reached, and `error` says so."""
    problems: list[DissectionProblem] = field(default_factory=list)

    @property
    def data(self) -> memoryview:
        return self.root.buffer

    @property
    def spans(self) -> list[ByteSpan]:
        """All leaves. Their bytes, joined, are the buffer."""
        return list(self.root.leaves())

    def find(self, path: str) -> ByteSpan | None:
        """The span with this path, the widest if there are several. Also searches decompressed records."""
        waiting = [self.root]
        while waiting:
            span = waiting.pop()
            if span.path == path:
                return span
            if span.inflated:
                waiting.append(span.inflated.root)
            waiting.extend(reversed(span.parts))
        return None
