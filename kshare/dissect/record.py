"""Records in a batch, as constructs: lengths, deltas, key, value and headers are spans.

Decides how one record is read, and what a control record's key says. Never looks beyond the bytes its length gives it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import meaning
from .constructs import INTEGERS, VARINT, VARLONG, Content, Fields, Length, Many, Mark, Named, Text
from .tape import BreakError, Tape, amount


@dataclass(frozen=True, slots=True)
class Base:
    """What a batch's records count from."""

    offset: int
    timestamp: int
    append_time: int | None  # where the broker's clock rules, all records have this time
    is_control: bool


def _size(*, is_nullable: bool = True, kind: str = "length") -> Length:
    return Length(VARINT, is_compact=False, is_nullable=is_nullable, kind=kind)


_LENGTH = Named("length", Mark(VARINT, "varint", "Bytes of the record after this field."))
_ATTRIBUTES = Named("attributes", Mark(INTEGERS["int8"], "int8", "Unused so far."))
_KEY = Named("key", Content(_size(), "The record's key."))
_VALUE = Named("value", Content(_size(), "The record's value; null is a tombstone."))
_HEADER_KEY = Named("key", Text(_size(is_nullable=False)))
_HEADER_VALUE = Named("value", Content(_size()))
_HEADERS = Named(
    "headers",
    Many(
        "[]record header",
        _size(is_nullable=False, kind="count"),
        Fields("record header", [_HEADER_KEY, _HEADER_VALUE], None),
        "Names and values beside the record's value.",
    ),
)


class _ControlKey(Content):
    """The key of a control record says what is controlled."""

    kind = "control record key"
    version = Named("version", Mark(INTEGERS["int16"], "int16", "Version of the control record."))
    type = Named("type", Mark(INTEGERS["int16"], "int16", "What is controlled.", meaning.control_type))

    def content(self, tape: Tape, context: Any, path: str, size: int) -> object:
        start, end = tape.position, tape.position + size
        if size != 4 or size > tape.left:
            return super().content(tape, context, path, size)
        self.version._parsereport(tape, context, path)
        self.type._parsereport(tape, context, path)
        return tape.data[start:end]


_CONTROL_KEY = Named("key", _ControlKey(_size(), "What the control record is about."))


def read_record(tape: Tape, context: Any, path: str, base: Base) -> None:
    span = tape.open(path, "record")
    size = _LENGTH._parsereport(tape, context, path)
    if size < 0:
        raise BreakError(f"{path}.length", span.offset, f"a length of {size}")
    outer = tape.end
    missing = tape.position + size - outer
    tape.end = min(outer, tape.position + size)
    _ATTRIBUTES._parsereport(tape, context, path)
    _timestamp(tape, context, f"{path}.timestampDelta", base)
    offset = _offset(tape, context, f"{path}.offsetDelta", base)
    (_CONTROL_KEY if base.is_control else _KEY)._parsereport(tape, context, path)
    _VALUE._parsereport(tape, context, path)
    _HEADERS._parsereport(tape, context, path)
    if tape.left:
        raise BreakError(
            path, tape.position, f"{amount(tape.left, 'byte')} behind the headers, inside the record's {size}"
        )
    if missing > 0:
        reason = f"{size} bytes announced, {missing} of them missing"
        raise BreakError(f"{path}.length", tape.position, reason, is_shortage=True)
    tape.end = outer
    tape.close().note = f"offset {offset}"


def _timestamp(tape: Tape, context: Any, path: str, base: Base) -> None:
    start = tape.position
    delta: int = VARLONG._parsereport(tape, context, path)
    moment = base.timestamp + delta if base.append_time is None else base.append_time
    note = f"{moment}, {meaning.moment(moment)}"
    tape.mark(path, "varlong", start, delta, note, "Milliseconds from the batch's base timestamp.")


def _offset(tape: Tape, context: Any, path: str, base: Base) -> int:
    start = tape.position
    delta: int = VARINT._parsereport(tape, context, path)
    offset = base.offset + delta
    tape.mark(path, "varint", start, delta, f"offset {offset}", "Offsets from the batch's base offset.")
    return offset
