"""A cursor over a buffer that returns bytes without copying, and records the span of each read.

Decides where reading must stop. Doesn't interpret bytes.
"""

from __future__ import annotations

from construct import ConstructError

from kshare.errors import Copyable

from .spans import ByteSpan, DissectionLimit, DissectionProblem


class BreakError(Copyable, ConstructError):  # type: ignore[misc]  # construct has no types
    """The bytes can't be read any further."""

    def __init__(self, path: str, offset: int, reason: str, *, is_shortage: bool = False) -> None:
        super().__init__(reason)
        self.problem = DissectionProblem(path, offset, reason)
        self.is_shortage = is_shortage


class TooManySpansError(Exception):
    """The limit of spans is reached. Unlike after a BreakError, nothing else is read, not even the next batch."""


def amount(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class SpanReader:
    """A cursor over a buffer, with the stream methods that construct needs, and the tree of spans read so far."""

    __slots__ = ("data", "end", "limit", "open_spans", "position", "problems", "shortage")

    def __init__(
        self,
        data: memoryview,
        root_path: str = "",
        root_kind: str = "frame",
        limit: DissectionLimit | None = None,
    ) -> None:
        self.data = data
        self.position = 0
        self.end = len(data)  # where reading must stop: reduced temporarily by sizes that are read
        self.shortage = ""  # why bytes are missing at the end, if known
        self.limit = limit or DissectionLimit.usual()
        self.problems: list[DissectionProblem] = []
        self.open_spans = [ByteSpan(root_path, root_kind, 0, len(data), data)]

    @property
    def root(self) -> ByteSpan:
        return self.open_spans[0]

    @property
    def last(self) -> ByteSpan:
        """The last span in the one that is open."""
        return self.open_spans[-1].parts[-1]

    @property
    def left(self) -> int:
        return self.end - self.position

    def tell(self) -> int:
        return self.position

    def read(self, count: int) -> memoryview:
        """Returns `count` bytes, or fewer at the end, as files do."""
        start = self.position
        self.position = min(start + count, self.end)
        return self.data[start : self.position]

    def take(self, count: int, path: str) -> memoryview:
        if count > self.end - self.position:
            raise self.short_of(count, path, self.position)
        return self.read(count)

    def short_of(self, count: int, path: str, offset: int) -> BreakError:
        self.position = offset
        reason = f"needs {amount(count, 'byte')}, {self.left} left"
        reason = f"{reason} ({self.shortage})" if self.shortage else reason
        return BreakError(path, offset, reason, is_shortage=True)

    def mark(
        self, path: str, kind: str, start: int, value: object = None, note: str = "", about: str = ""
    ) -> ByteSpan:
        """Records what was read since `start` as a leaf."""
        self._count(start)
        return self._add(path, kind, start, value, note, about)

    def _count(self, start: int) -> None:
        if self.limit.spans <= 0:
            self.position = start
            raise TooManySpansError
        self.limit.spans -= 1

    def _add(self, path: str, kind: str, start: int, value: object, note: str, about: str = "") -> ByteSpan:
        length = self.position - start
        span = ByteSpan(path, kind, start, length, self.data, value, note, about)
        self.open_spans[-1].parts.append(span)
        return span

    def open(self, path: str, kind: str, about: str = "") -> ByteSpan:
        """Begins a span that contains everything read until `close`."""
        self._count(self.position)
        span = ByteSpan(path, kind, self.position, 0, self.data, None, "", about)
        self.open_spans[-1].parts.append(span)
        self.open_spans.append(span)
        return span

    def close(self, value: object = None) -> ByteSpan:
        span = self.open_spans.pop()
        span.length = self.position - span.offset
        span.value = value
        return span

    def abandon(self, depth: int) -> None:
        """After an error: closes the spans opened since as incomplete."""
        while len(self.open_spans) > depth:
            self.close().is_complete = False

    def skip_rest(self, path: str, kind: str, end: int, note: str = "") -> ByteSpan:
        """Records everything up to `end` as one leaf."""
        start = self.position
        self.position = end
        return self._add(path, kind, start, self.data[start:end], note)

    def give_up(self, depth: int, broken: BreakError, path: str, end: int) -> None:
        """After an error: open spans become incomplete, and the bytes up to `end` one unread leaf."""
        self.abandon(depth)
        self.problems.append(broken.problem)
        self.end = end
        if self.position < end:
            self.skip_rest(path, "unread", end, broken.problem.reason)

    def stop_at_limit(self, path: str) -> BreakError:
        """After a TooManySpansError: the rest is one unread leaf. Returns why."""
        broken = BreakError(path, self.position, "the limit of fields is reached, the rest is not divided")
        self.give_up(1, broken, path, len(self.data))
        return broken

    def add_problem(self, span: ByteSpan, reason: str) -> None:
        """Adds a problem that doesn't stop reading."""
        span.problem = reason
        self.problems.append(DissectionProblem(span.path, span.offset, reason))
