"""Record batches (magic 2) as constructs: every field of every batch and record is a span.

Decides how much of malformed data can be shown: a malformed batch leaves its own rest unread, not the next batch.
Checksums are recomputed here; a wrong one is reported as a problem, and reading continues. Formats older than magic 2
are named but not decoded.
"""

from __future__ import annotations

from typing import Any

import crc32c
from construct import Construct

from kshare.errors import DecodeError

from . import value_notes
from .constructs import INTEGERS, Length, Named, SpanConstruct, expect_items
from .record import BatchBase, read_record
from .span_reader import BreakError, SpanReader, TooManySpansError, amount
from .spans import ByteSpan, Dissection

_PREFIX = 12  # base offset and length: the bytes before those that the length counts
_MAGIC_AT = 16
_CHECKED_FROM = 21  # the attributes: the checksum covers everything from there
_COMPRESSION = 7
_APPEND_TIME = 8
_CONTROL = 32


def _named(name: str, type_name: str, about: str, explain: value_notes.Explain | None = None) -> Construct:
    return Named(name, SpanConstruct(INTEGERS[type_name], type_name, about, explain))


_BASE_OFFSET = _named("baseOffset", "int64", "Offset of the first record, before any compaction.")
_BATCH_LENGTH = _named("batchLength", "int32", "Bytes of the batch after this field.")
_LEADER_EPOCH = _named("partitionLeaderEpoch", "int32", "Epoch of the leader that appended the batch.")
_MAGIC = _named("magic", "int8", "Format of the batch; share groups only support 2.")
_CRC = _named("crc", "uint32", "CRC-32C of everything from the attributes on.")
_ATTRIBUTES = _named(
    "attributes",
    "int16",
    "Bits: compression, timestamp type, transactional, control, delete horizon.",
    value_notes.batch_attributes,
)
_LAST_OFFSET_DELTA = _named("lastOffsetDelta", "int32", "Offset of the last record, from the base offset.")
_BASE_TIMESTAMP = _named(
    "baseTimestamp", "int64", "The records' timestamp deltas are relative to it.", value_notes.moment
)
_MAX_TIMESTAMP = _named("maxTimestamp", "int64", "The latest timestamp in the batch.", value_notes.moment)
_PRODUCER = [
    _named("producerId", "int64", "Idempotent or transactional producer; -1 if neither."),
    _named("producerEpoch", "int16", "Epoch of that producer; -1 if none."),
    _named("baseSequence", "int32", "Sequence number of the first record; -1 if none."),
]
_RECORD_COUNT = _named("recordCount", "int32", "Records in the batch.")


class RecordsField(Construct):  # type: ignore[misc]
    """A schema's `records`: a length and batches. Batches are only read if the context's `records` is true."""

    def __init__(self, length: Length, about: str = "") -> None:
        super().__init__()
        self.length = length
        self.about = about

    def _parse(self, reader: SpanReader, context: Any, path: str) -> None:
        reader.open(path, "records", self.about)
        size = self.length._parsereport(reader, context, path)
        start = reader.position
        if size and context.records:
            available = min(size, reader.left)
            read_batches(reader, context, path, start + available)
            if available < size:
                raise BreakError(
                    path, reader.position, f"{size} bytes of records announced, {available} present"
                )
        elif size:
            reader.take(size, path)
            reader.mark(path, "records", start, reader.data[start : reader.position], "", self.about)
        reader.close(None if size is None else reader.data[start : reader.position])


def read_batches(reader: SpanReader, context: Any, path: str, end: int) -> None:
    """Reads batches up to `end`. An error inside a batch ends that batch; one in its length ends reading."""
    outer, reader.end = reader.end, end
    depth = len(reader.open_spans)
    number = 0
    try:
        while reader.left:
            _batch(reader, context, f"{path}[{number}]")
            number += 1
    except BreakError as broken:
        reader.give_up(depth, broken, f"{path}.unread", end)
    reader.end = outer


def _batch(reader: SpanReader, context: Any, path: str) -> None:
    """Reads one batch, complete or not: brokers cut off the last batch of a response at the fetch size."""
    span = reader.open(path, "record batch")
    start, end = reader.position, reader.end
    announced = int.from_bytes(reader.data[start + 8 : start + _PREFIX], "big", signed=True)
    if reader.left >= _PREFIX and _PREFIX + announced <= reader.left:
        _whole_batch(reader, context, path, start + _PREFIX + announced)
        reader.end = end
    else:
        span.kind = "partial batch"
        size = f" of {_PREFIX + announced}" if reader.left >= _PREFIX else ""
        span.note = f"cut off after {reader.left}{size} bytes"
        _partial_batch(reader, context, path)
    reader.close()


def _partial_batch(reader: SpanReader, context: Any, path: str) -> None:
    """Reads the fields that are present. Missing bytes aren't reported as a problem; other errors are."""
    start, end, depth = reader.position, reader.end, len(reader.open_spans)
    shortage, reader.shortage = reader.shortage, "the batch is cut off"
    try:
        _contents(reader, context, path, start, is_whole=False)
    except BreakError as broken:
        if not broken.is_shortage:
            reader.give_up(depth, broken, f"{path}.unread", end)
        reader.abandon(depth)
    reader.end = end
    reader.shortage = shortage
    if reader.left:
        reader.skip_rest(f"{path}.rest", "rest of a partial batch", end)


def _whole_batch(reader: SpanReader, context: Any, path: str, end: int) -> None:
    start = reader.position
    magic = reader.data[start + _MAGIC_AT] if start + _MAGIC_AT < end else -1
    if magic in (0, 1):
        _BASE_OFFSET._parsereport(reader, context, path)
        _BATCH_LENGTH._parsereport(reader, context, path)
        rest = reader.skip_rest(f"{path}.messages", "message set", end)
        reader.add_problem(rest, f"magic {magic}: an old format, from before record batches, not decoded")
        return
    if end < start + _PREFIX:
        raise BreakError(f"{path}.batchLength", start + 8, f"a length of {end - start - _PREFIX}")
    reader.end = end
    depth = len(reader.open_spans)
    try:
        _contents(reader, context, path, start, is_whole=True)
        if reader.left:
            raise BreakError(path, reader.position, f"{amount(reader.left, 'byte')} after the last record")
    except BreakError as broken:
        # The start of the next batch is known anyway.
        reader.give_up(depth, broken, f"{path}.unread", end)


def _contents(reader: SpanReader, context: Any, path: str, start: int, *, is_whole: bool) -> None:
    base_offset = _BASE_OFFSET._parsereport(reader, context, path)
    for field in (_BATCH_LENGTH, _LEADER_EPOCH):
        field._parsereport(reader, context, path)
    magic = _MAGIC._parsereport(reader, context, path)
    if magic != 2:
        raise BreakError(f"{path}.magic", start + _MAGIC_AT, f"magic {magic} is not known")
    crc = _CRC._parsereport(reader, context, path)
    _judge_checksum(reader, reader.last, crc, start, is_whole)
    attributes = _ATTRIBUTES._parsereport(reader, context, path)
    _LAST_OFFSET_DELTA._parsereport(reader, context, path)
    base_timestamp = _BASE_TIMESTAMP._parsereport(reader, context, path)
    max_timestamp = _MAX_TIMESTAMP._parsereport(reader, context, path)
    for field in _PRODUCER:
        field._parsereport(reader, context, path)
    count = _RECORD_COUNT._parsereport(reader, context, path)
    append_time = max_timestamp if attributes & _APPEND_TIME else None
    base = BatchBase(base_offset, base_timestamp, append_time, bool(attributes & _CONTROL))
    codec = attributes & _COMPRESSION
    if codec == 0:
        reader.open(f"{path}.records", "[]record")
        _records(reader, context, f"{path}.records", count, base)
        reader.close(count)
    elif is_whole:
        packed = reader.skip_rest(f"{path}.records", "compressed records", reader.end)
        if packed.length or count:
            _inflate(reader, context, packed, codec, count, base)


def _judge_checksum(reader: SpanReader, span: ByteSpan, crc: int, start: int, is_whole: bool) -> None:
    if not is_whole:
        span.note = "not checked, the batch is cut off"
        return
    actual = crc32c.crc32c(reader.data[start + _CHECKED_FROM : reader.end])
    if actual == crc:
        span.note = "valid"
    else:
        reader.add_problem(span, f"invalid: the bytes make {actual:#010x}, not {crc:#010x}")


def _records(reader: SpanReader, context: Any, path: str, count: int, base: BatchBase) -> None:
    if count < 0:
        raise BreakError(path, reader.position, f"a count of {count}")
    expect_items(reader, path, count)
    for i in range(count):
        read_record(reader, context, f"{path}[{i}]", base)


def _inflate(
    reader: SpanReader, context: Any, packed: ByteSpan, codec: int, count: int, base: BatchBase
) -> None:
    """Decompresses records into a separate buffer, and attaches its dissection to the span of the compressed bytes."""
    try:
        plain = reader.limit.unpacked.decompress(codec, packed.raw)
    except DecodeError as error:
        reader.add_problem(packed, error.reason)
        return
    inner = SpanReader(plain, packed.path, "[]record", reader.limit)
    packed.inflated = Dissection(inner.root, problems=inner.problems)
    try:
        _records(inner, context, packed.path, count, base)
        if inner.left:
            raise BreakError(
                packed.path, inner.position, f"{amount(inner.left, 'byte')} after the last record"
            )
    except BreakError as broken:
        packed.inflated.error = broken.problem
        inner.give_up(1, broken, f"{packed.path}.unread", len(plain))
    except TooManySpansError:
        packed.inflated.error = inner.stop_at_limit(f"{packed.path}.unread").problem
        packed.inflated.is_cut = True
        raise
    if inner.problems:
        reader.add_problem(
            packed, f"in the decompressed records: {packed.inflated.error or inner.problems[0]}"
        )
