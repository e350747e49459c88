"""Records in a batch, as constructs: lengths, deltas, key, value and headers are spans.

Decides how one record is read, and how the key of a control record is divided. Never reads beyond a record's length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import value_notes
from .constructs import (
    INTEGERS,
    VARINT,
    VARLONG,
    Array,
    Fields,
    Length,
    Named,
    SizedBytes,
    SpanConstruct,
    Text,
)
from .span_reader import BreakError, SpanReader, amount


@dataclass(frozen=True, slots=True)
class BatchBase:
    """The values of a batch that its records' deltas are relative to."""

    offset: int
    timestamp: int
    append_time: int | None  # with LogAppendTime, the timestamp of all records
    is_control: bool


def _size(*, is_nullable: bool = True, kind: str = "length") -> Length:
    return Length(VARINT, is_compact=False, is_nullable=is_nullable, kind=kind)


_LENGTH = Named("length", SpanConstruct(VARINT, "varint", "Bytes of the record after this field."))
_ATTRIBUTES = Named("attributes", SpanConstruct(INTEGERS["int8"], "int8", "Unused so far."))
_KEY = Named("key", SizedBytes(_size(), "The record's key."))
_VALUE = Named("value", SizedBytes(_size(), "The record's value; null is a tombstone."))
_HEADER_KEY = Named("key", Text(_size(is_nullable=False)))
_HEADER_VALUE = Named("value", SizedBytes(_size()))
_HEADERS = Named(
    "headers",
    Array(
        "[]record header",
        _size(is_nullable=False, kind="count"),
        Fields("record header", [_HEADER_KEY, _HEADER_VALUE], None),
        "Names and values in addition to key and value.",
    ),
)


class _ControlKey(SizedBytes):
    """The key of a control record contains its type."""

    kind = "control record key"
    version = Named("version", SpanConstruct(INTEGERS["int16"], "int16", "Version of the control record."))
    type = Named(
        "type",
        SpanConstruct(INTEGERS["int16"], "int16", "Type of the control record.", value_notes.control_type),
    )

    def content(self, reader: SpanReader, context: Any, path: str, size: int) -> object:
        start, end = reader.position, reader.position + size
        if size != 4 or size > reader.left:
            return super().content(reader, context, path, size)
        self.version._parsereport(reader, context, path)
        self.type._parsereport(reader, context, path)
        return reader.data[start:end]


_CONTROL_KEY = Named("key", _ControlKey(_size(), "Version and type of the control record."))


def read_record(reader: SpanReader, context: Any, path: str, base: BatchBase) -> None:
    span = reader.open(path, "record")
    size = _LENGTH._parsereport(reader, context, path)
    if size < 0:
        raise BreakError(f"{path}.length", span.offset, f"a length of {size}")
    outer = reader.end
    missing = reader.position + size - outer
    reader.end = min(outer, reader.position + size)
    _ATTRIBUTES._parsereport(reader, context, path)
    _timestamp(reader, context, f"{path}.timestampDelta", base)
    offset = _offset(reader, context, f"{path}.offsetDelta", base)
    (_CONTROL_KEY if base.is_control else _KEY)._parsereport(reader, context, path)
    _VALUE._parsereport(reader, context, path)
    _HEADERS._parsereport(reader, context, path)
    if reader.left:
        raise BreakError(
            path,
            reader.position,
            f"{amount(reader.left, 'byte')} after the headers, inside the record's {size}",
        )
    if missing > 0:
        reason = f"{size} bytes announced, {missing} of them missing"
        raise BreakError(f"{path}.length", reader.position, reason, is_shortage=True)
    reader.end = outer
    reader.close().note = f"offset {offset}"


def _timestamp(reader: SpanReader, context: Any, path: str, base: BatchBase) -> None:
    start = reader.position
    delta: int = VARLONG._parsereport(reader, context, path)
    moment = base.timestamp + delta if base.append_time is None else base.append_time
    note = f"{moment}, {value_notes.moment(moment)}"
    reader.mark(path, "varlong", start, delta, note, "Milliseconds from the batch's base timestamp.")


def _offset(reader: SpanReader, context: Any, path: str, base: BatchBase) -> int:
    start = reader.position
    delta: int = VARINT._parsereport(reader, context, path)
    offset = base.offset + delta
    reader.mark(path, "varint", start, delta, f"offset {offset}", "Offsets from the batch's base offset.")
    return offset
