"""Record batches (magic 2) as constructs: every field of every batch and record is a span.

Decides how far a broken blob can be shown: a batch that breaks leaves its own rest unread, not the next one's.
Checksums are recomputed here; a wrong one is a problem, and reading goes on. Formats older than magic 2 are named
and left opaque.
"""

from __future__ import annotations

from typing import Any

import crc32c
from construct import Construct

from kshare.errors import DecodeError
from kshare.protocol.compression import decompress

from . import meaning
from .constructs import INTEGERS, Length, Mark, Named, expect_items
from .record import Base, read_record
from .spans import Dissection, Span
from .tape import BreakError, Tape, amount

_PREFIX = 12  # base offset and length: what comes before the bytes that the length counts
_MAGIC_AT = 16
_CHECKED_FROM = 21  # the attributes: the checksum covers all from there
_COMPRESSION = 7
_APPEND_TIME = 8
_CONTROL = 32


def _named(name: str, type_name: str, about: str, explain: meaning.Explain | None = None) -> Construct:
    return Named(name, Mark(INTEGERS[type_name], type_name, about, explain))


_BASE_OFFSET = _named("baseOffset", "int64", "Offset of the first record, before any compaction.")
_BATCH_LENGTH = _named("batchLength", "int32", "Bytes of the batch after this field.")
_LEADER_EPOCH = _named("partitionLeaderEpoch", "int32", "Epoch of the leader that appended the batch.")
_MAGIC = _named("magic", "int8", "Format of the batch; 2 is the only one that share groups deal in.")
_CRC = _named("crc", "uint32", "CRC-32C of everything from the attributes on.")
_ATTRIBUTES = _named(
    "attributes",
    "int16",
    "Bits: compression, timestamp type, transactional, control, delete horizon.",
    meaning.batch_attributes,
)
_LAST_OFFSET_DELTA = _named("lastOffsetDelta", "int32", "Offset of the last record, from the base offset.")
_BASE_TIMESTAMP = _named("baseTimestamp", "int64", "What records' timestamps count from.", meaning.moment)
_MAX_TIMESTAMP = _named("maxTimestamp", "int64", "The latest timestamp in the batch.", meaning.moment)
_PRODUCER = [
    _named("producerId", "int64", "Idempotent or transactional producer; -1 if neither."),
    _named("producerEpoch", "int16", "Epoch of that producer; -1 if none."),
    _named("baseSequence", "int32", "Sequence number of the first record; -1 if none."),
]
_RECORD_COUNT = _named("recordCount", "int32", "Records in the batch.")


class Records(Construct):  # type: ignore[misc]
    """A schema's `records`: a length and batches, which are only looked into if the context's `records` says so."""

    def __init__(self, length: Length, about: str = "") -> None:
        super().__init__()
        self.length = length
        self.about = about

    def _parse(self, tape: Tape, context: Any, path: str) -> None:
        tape.open(path, "records", self.about)
        size = self.length._parsereport(tape, context, path)
        start = tape.position
        if size and context.records:
            there = min(size, tape.left)
            read_batches(tape, context, path, start + there)
            if there < size:
                raise BreakError(path, tape.position, f"{size} bytes of records announced, {there} there")
        elif size:
            tape.take(size, path)
            tape.mark(path, "records", start, tape.data[start : tape.position], "", self.about)
        tape.close(None if size is None else tape.data[start : tape.position])


def read_batches(tape: Tape, context: Any, path: str, end: int) -> None:
    """Batches up to `end`. A break inside a batch ends that batch; one in its length ends them all, up to `end`."""
    outer, tape.end = tape.end, end
    depth = len(tape.open_spans)
    number = 0
    try:
        while tape.left:
            _batch(tape, context, f"{path}[{number}]")
            number += 1
    except BreakError as broken:
        tape.give_up(depth, broken, f"{path}.unread", end)
    tape.end = outer


def _batch(tape: Tape, context: Any, path: str) -> None:
    """One batch, or what there is of it: brokers cut the last batch of an answer where the fetch size ends."""
    span = tape.open(path, "record batch")
    start, end = tape.position, tape.end
    announced = int.from_bytes(tape.data[start + 8 : start + _PREFIX], "big", signed=True)
    if tape.left >= _PREFIX and _PREFIX + announced <= tape.left:
        _whole_batch(tape, context, path, start + _PREFIX + announced)
        tape.end = end
    else:
        span.kind = "partial batch"
        size = f" of {_PREFIX + announced}" if tape.left >= _PREFIX else ""
        span.note = f"cut off after {tape.left}{size} bytes"
        _partial_batch(tape, context, path)
    tape.close()


def _partial_batch(tape: Tape, context: Any, path: str) -> None:
    """All fields that came. That bytes are missing is no problem; other things that break here are."""
    start, end, depth = tape.position, tape.end, len(tape.open_spans)
    shortage, tape.shortage = tape.shortage, "the batch is cut off"
    try:
        _contents(tape, context, path, start, is_whole=False)
    except BreakError as broken:
        if not broken.is_shortage:
            tape.give_up(depth, broken, f"{path}.unread", end)
        tape.abandon(depth)
    tape.end = end
    tape.shortage = shortage
    if tape.left:
        tape.skip_rest(f"{path}.rest", "rest of a partial batch", end)


def _whole_batch(tape: Tape, context: Any, path: str, end: int) -> None:
    start = tape.position
    magic = tape.data[start + _MAGIC_AT] if start + _MAGIC_AT < end else -1
    if magic in (0, 1):
        _BASE_OFFSET._parsereport(tape, context, path)
        _BATCH_LENGTH._parsereport(tape, context, path)
        rest = tape.skip_rest(f"{path}.messages", "message set", end)
        tape.complain(rest, f"magic {magic}: an old format, from before record batches, not looked into")
        return
    if end < start + _PREFIX:
        raise BreakError(f"{path}.batchLength", start + 8, f"a length of {end - start - _PREFIX}")
    tape.end = end
    depth = len(tape.open_spans)
    try:
        _contents(tape, context, path, start, is_whole=True)
        if tape.left:
            raise BreakError(path, tape.position, f"{amount(tape.left, 'byte')} behind the last record")
    except BreakError as broken:
        # Where the next batch starts is known all the same.
        tape.give_up(depth, broken, f"{path}.unread", end)


def _contents(tape: Tape, context: Any, path: str, start: int, *, is_whole: bool) -> None:
    base_offset = _BASE_OFFSET._parsereport(tape, context, path)
    for one in (_BATCH_LENGTH, _LEADER_EPOCH):
        one._parsereport(tape, context, path)
    magic = _MAGIC._parsereport(tape, context, path)
    if magic != 2:
        raise BreakError(f"{path}.magic", start + _MAGIC_AT, f"magic {magic} is not known")
    crc = _CRC._parsereport(tape, context, path)
    _judge_checksum(tape, tape.last, crc, start, is_whole)
    attributes = _ATTRIBUTES._parsereport(tape, context, path)
    _LAST_OFFSET_DELTA._parsereport(tape, context, path)
    base_timestamp = _BASE_TIMESTAMP._parsereport(tape, context, path)
    max_timestamp = _MAX_TIMESTAMP._parsereport(tape, context, path)
    for one in _PRODUCER:
        one._parsereport(tape, context, path)
    count = _RECORD_COUNT._parsereport(tape, context, path)
    append_time = max_timestamp if attributes & _APPEND_TIME else None
    base = Base(base_offset, base_timestamp, append_time, bool(attributes & _CONTROL))
    codec = attributes & _COMPRESSION
    if codec == 0:
        tape.open(f"{path}.records", "[]record")
        _records(tape, context, f"{path}.records", count, base)
        tape.close(count)
    elif is_whole:
        packed = tape.skip_rest(f"{path}.records", "compressed records", tape.end)
        if packed.length or count:
            _inflate(tape, context, packed, codec, count, base)


def _judge_checksum(tape: Tape, span: Span, crc: int, start: int, is_whole: bool) -> None:
    if not is_whole:
        span.note = "not checked, the batch is cut off"
        return
    actual = crc32c.crc32c(tape.data[start + _CHECKED_FROM : tape.end])
    if actual == crc:
        span.note = "valid"
    else:
        tape.complain(span, f"invalid: the bytes make {actual:#010x}, not {crc:#010x}")


def _records(tape: Tape, context: Any, path: str, count: int, base: Base) -> None:
    if count < 0:
        raise BreakError(path, tape.position, f"a count of {count}")
    expect_items(tape, path, count)
    for i in range(count):
        read_record(tape, context, f"{path}[{i}]", base)


def _inflate(tape: Tape, context: Any, packed: Span, codec: int, count: int, base: Base) -> None:
    """Decompressed records are a buffer of their own, hung on the span of the compressed bytes."""
    try:
        plain = decompress(codec, packed.raw)
    except DecodeError as error:
        tape.complain(packed, error.reason)
        return
    inner = Tape(plain, packed.path, "[]record")
    packed.inflated = Dissection(inner.root, problems=inner.problems)
    try:
        _records(inner, context, packed.path, count, base)
        if inner.left:
            raise BreakError(
                packed.path, inner.position, f"{amount(inner.left, 'byte')} behind the last record"
            )
    except BreakError as broken:
        packed.inflated.error = broken.problem
        inner.give_up(1, broken, f"{packed.path}.unread", len(plain))
    if inner.problems:
        tape.complain(packed, f"in the decompressed records: {packed.inflated.error or inner.problems[0]}")
