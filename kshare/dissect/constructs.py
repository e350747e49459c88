"""Kafka's encodings of values, as constructs that record a span for every byte they read.

Decides how lengths, nulls, varints, tags and texts are encoded; the schemas' tables decide where they occur.
construct passes each parser a path and ignores it: here it is the path of the value being read.
Values are kept only in spans. construct's containers aren't used, as they would hold every value a second time.
"""

from __future__ import annotations

import base64
from typing import Any

from construct import Adapter, Bytes, Construct, FormatField, StreamError, Subconstruct

from .span_reader import BreakError, SpanReader, amount
from .value_notes import Explain


class SpanConstruct(Subconstruct):  # type: ignore[misc]
    """A value that fills one span."""

    def __init__(self, subcon: Construct, kind: str, about: str = "", explain: Explain | None = None) -> None:
        super().__init__(subcon)
        self.kind = kind
        self.about = about
        self.explain = explain

    def _parse(self, reader: SpanReader, context: Any, path: str) -> Any:
        start = reader.position
        try:
            value = self.subcon._parsereport(reader, context, path)
        except StreamError:
            raise reader.short_of(self.subcon.sizeof(), path, start) from None
        reader.mark(path, self.kind, start, value, self.explain(value) if self.explain else "", self.about)
        return value


class Named(Subconstruct):  # type: ignore[misc]
    """A field: adds its name to the path of its value."""

    def __init__(self, name: str, subcon: Construct) -> None:
        super().__init__(subcon)
        self.name = name

    def _parse(self, reader: SpanReader, context: Any, path: str) -> Any:
        return self.subcon._parsereport(reader, context, f"{path}.{self.name}" if path else self.name)


class Boolean(Adapter):  # type: ignore[misc]
    def _decode(self, obj: int, context: Any, path: str) -> bool:
        return obj != 0


class KafkaUuid(Adapter):  # type: ignore[misc]
    """A uuid as Kafka shows it: 22 characters of URL-safe base64."""

    def _decode(self, obj: memoryview, context: Any, path: str) -> str:
        return base64.urlsafe_b64encode(obj).decode().rstrip("=")


class Varint(Construct):  # type: ignore[misc]
    """Seven bits per byte, lowest first; zigzag if signed."""

    def __init__(self, bits: int, signed: bool) -> None:
        super().__init__()
        self.bits = bits
        self.signed = signed
        self.most = -(-bits // 7)

    def _parse(self, reader: SpanReader, context: Any, path: str) -> int:
        start = reader.position
        limit = min(reader.end, start + self.most)
        value = shift = 0
        for position in range(start, limit):
            byte = reader.data[position]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> self.bits:
                    raise BreakError(path, start, f"a varint of more than {self.bits} bits")
                reader.position = position + 1
                return (value >> 1) ^ -(value & 1) if self.signed else value
            shift += 7
        if limit == reader.end and limit - start < self.most:
            raise reader.short_of(limit - start + 1, path, start)
        raise BreakError(path, start, f"a varint of more than {self.most} bytes")


INTEGERS = {
    "int8": FormatField(">", "b"),
    "int16": FormatField(">", "h"),
    "int32": FormatField(">", "l"),
    "int64": FormatField(">", "q"),
    "uint16": FormatField(">", "H"),
    "uint32": FormatField(">", "L"),
}
FIXED: dict[str, Construct] = {
    **INTEGERS,
    "bool": Boolean(INTEGERS["int8"]),
    "float64": FormatField(">", "d"),
    "uuid": KafkaUuid(Bytes(16)),
}
UNSIGNED_VARINT = Varint(32, signed=False)
VARINT = Varint(32, signed=True)
VARLONG = Varint(64, signed=True)


class Length(Subconstruct):  # type: ignore[misc]
    """A length or count; None for null. The compact form stores the value plus one, and 0 for null."""

    def __init__(
        self, subcon: Construct, *, is_compact: bool, is_nullable: bool, kind: str = "length"
    ) -> None:
        super().__init__(subcon)
        self.surplus = 1 if is_compact else 0
        self.is_nullable = is_nullable
        self.kind = kind

    def _parse(self, reader: SpanReader, context: Any, path: str) -> int | None:
        start = reader.position
        path = f"{path}.{self.kind}"
        try:
            stored: int = self.subcon._parsereport(reader, context, path)
        except StreamError:
            raise reader.short_of(self.subcon.sizeof(), path, start) from None
        value = stored - self.surplus
        if value < -1:
            reader.position = start
            raise BreakError(path, start, f"a {self.kind} of {value}")
        note = "null" if value == -1 else f"stored as {stored}" if self.surplus else ""
        span = reader.mark(path, self.kind, start, None if value == -1 else value, note)
        if value >= 0:
            return value
        if not self.is_nullable:
            reader.add_problem(span, "null, but this field isn't nullable")
        return None


class SizedBytes(Construct):  # type: ignore[misc]
    """A length, and this many bytes."""

    kind = "bytes"

    def __init__(self, length: Length, about: str = "") -> None:
        super().__init__()
        self.length = length
        self.about = about

    def _parse(self, reader: SpanReader, context: Any, path: str) -> None:
        reader.open(path, self.kind, self.about)
        size = self.length._parsereport(reader, context, path)
        reader.close(None if size is None else self.content(reader, context, path, size))

    def content(self, reader: SpanReader, context: Any, path: str, size: int) -> object:
        start = reader.position
        raw = reader.take(size, path)
        if size:
            reader.mark(path, self.kind, start, raw, "", self.about)
        return raw


class Text(SizedBytes):
    """UTF-8. Invalid bytes are shown escaped, and reported as a problem."""

    kind = "string"

    def content(self, reader: SpanReader, context: Any, path: str, size: int) -> object:
        start = reader.position
        raw = bytes(reader.take(size, path))
        text = raw.decode(errors="backslashreplace")
        if size:
            span = reader.mark(path, self.kind, start, text, "", self.about)
            if text.encode() != raw:
                reader.add_problem(span, "not UTF-8")
        return text


class Fields(Construct):  # type: ignore[misc]
    """A struct: its fields in order, in one span. In flexible versions `tags` come last."""

    def __init__(self, kind: str, fields: list[Construct], tags: Construct | None, about: str = "") -> None:
        super().__init__()
        self.kind = kind
        self.fields = fields if tags is None else [*fields, tags]
        self.about = about

    def _parse(self, reader: SpanReader, context: Any, path: str) -> None:
        reader.open(path, self.kind, self.about)
        self.inside(reader, context, path)
        reader.close()

    def inside(self, reader: SpanReader, context: Any, path: str) -> None:
        for field in self.fields:
            field._parsereport(reader, context, path)


class NullableFields(Fields):
    """A struct after a byte that says whether it is present."""

    presence = SpanConstruct(
        INTEGERS["int8"], "presence", explain=lambda marker: "null" if marker < 0 else "there"
    )

    def inside(self, reader: SpanReader, context: Any, path: str) -> None:
        if self.presence._parsereport(reader, context, f"{path}.presence") >= 0:
            super().inside(reader, context, path)


class Array(Subconstruct):  # type: ignore[misc]
    """An array: a count, and this many items. Its value is the count."""

    def __init__(self, kind: str, count: Length, subcon: Construct, about: str = "") -> None:
        super().__init__(subcon)
        self.kind = kind
        self.count = count
        self.about = about

    def _parse(self, reader: SpanReader, context: Any, path: str) -> None:
        reader.open(path, self.kind, self.about)
        count = self.count._parsereport(reader, context, path)
        if count is not None:
            expect_items(reader, path, count)
            for i in range(count):
                self.subcon._parsereport(reader, context, f"{path}[{i}]")
        reader.close(count)


def expect_items(reader: SpanReader, path: str, count: int) -> None:
    """Fails if the count is larger than the number of bytes left, since each item takes at least one byte.

    If bytes are known to be missing it doesn't fail, so that the present items are read.
    """
    if count > reader.left and not reader.shortage:
        reason = f"{amount(count, 'item')} announced, {amount(reader.left, 'byte')} left"
        raise BreakError(path, reader.position, reason)


class Tags(Construct):  # type: ignore[misc]
    """The tagged fields at a struct's end. Known ones have the same path as if they weren't tagged."""

    def __init__(self, known: dict[int, Construct]) -> None:
        super().__init__()
        self.known = known
        self.count = SpanConstruct(UNSIGNED_VARINT, "count")
        self.number = SpanConstruct(UNSIGNED_VARINT, "tag")
        self.size = SpanConstruct(UNSIGNED_VARINT, "size")

    def _parse(self, reader: SpanReader, context: Any, path: str) -> None:
        tags = f"{path}.tags" if path else "tags"
        reader.open(tags, "tags")
        count: int = self.count._parsereport(reader, context, f"{tags}.count")
        expect_items(reader, tags, count)
        last = -1
        for i in range(count):
            last = self.one(reader, context, path, f"{tags}[{i}]", last)
        reader.close(count)

    def one(self, reader: SpanReader, context: Any, path: str, tag: str, last: int) -> int:
        start = reader.position
        reader.open(tag, "tagged field")
        number: int = self.number._parsereport(reader, context, f"{tag}.number")
        if number <= last:
            raise BreakError(f"{tag}.number", start, f"tag {number} after tag {last}: tags must ascend")
        size: int = self.size._parsereport(reader, context, f"{tag}.size")
        if number in self.known:
            self.within(reader, context, path, tag, size, self.known[number])
        else:
            start = reader.position
            raw = reader.take(size, f"{tag}.content")
            reader.mark(f"{tag}.content", "unknown tagged field", start, raw)
        reader.close(number)
        return number

    def within(
        self, reader: SpanReader, context: Any, path: str, tag: str, size: int, known: Construct
    ) -> None:
        """Reads a known field, which must take exactly as many bytes as its tag's size."""
        if size > reader.left:
            raise reader.short_of(size, f"{tag}.content", reader.position)
        outer, reader.end = reader.end, reader.position + size
        known._parsereport(reader, context, path)
        if reader.left:
            reason = f"{size} announced, the field takes {size - reader.left}"
            raise BreakError(f"{tag}.size", reader.position, reason)
        reader.end = outer
