"""Compares decoding of record batches: ours, aiokafka's compiled reader and kafka-python's, with the same bytes.

Every contender verifies the checksum, iterates over all records and reads their offset and value. The Arrow case
creates columns (offset, timestamp, key, value, headers) of about 1 MiB, which are 10,000 rows of 100 bytes.
kafka-python computes checksums in Python unless the package crc32c is installed, on which kshare depends. Both ways are
measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from aiokafka.record._crecords import MemoryRecords as AioRecords
from kafka.record import default_records
from kafka.record._crc32c import crc as kafka_python_checksum
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from kshare.protocol.compression import Compression
from kshare.protocol.record_builder import BatchBuilder
from kshare.spark.executor.arrow import column_of_records
from tests.helpers.uncompiled import decoder
from tools.benches.study import TIME, Contest, Figure, Study, Trial, Wishes, timed

ROUNDS = 9
_BATCH_BYTES = 64 * 1024
_ARROW_BYTES = 1024 * 1024
_COLUMNS = ("offset", "timestamp", "key", "value", "headers")
_KAFKA_PYTHON_CODECS = (Compression.NONE,)
"""Its other codecs, except gzip, need packages that it doesn't depend on."""


Case = Callable[[], int]


def study(wishes: Wishes) -> Study:
    trials: dict[str, Trial] = {}
    contests: list[Contest] = []
    for size in (100, 1024):
        for codec in (Compression.NONE, Compression.LZ4, Compression.ZSTD):
            title = f"{size} B {'plain' if codec is Compression.NONE else codec.name.lower()}"
            contenders = _contenders(size, codec)
            trials |= {f"{contender}, {title}": timed(case) for contender, case in contenders.items()}
            contests += _contests(title, [*contenders])
    return Study("records", [], [Figure(TIME, "nanoseconds a record", form=",.1f")], trials, contests)


def _contenders(size: int, codec: Compression) -> dict[str, Case]:
    data, count = _batch(size, codec)
    contenders = {
        "kshare": _ours(decoder("compiled").records, data),
        "kshare uncompiled": _ours(decoder("uncompiled").records, data),
        "kshare Arrow": _arrow(data, _ARROW_BYTES // _BATCH_BYTES),
        "aiokafka": _theirs(AioRecords, data),
    }
    if codec in _KAFKA_PYTHON_CODECS:
        contenders["kafka-python"] = _kafka_python_alone(data)
        contenders["kafka-python with crc32c"] = _theirs(KafkaPythonRecords, data)
    if any(case() % count for case in contenders.values()):
        raise AssertionError(f"{size} B, {codec.name}: the contenders disagree about the records")
    return contenders


def _contests(title: str, contenders: list[str]) -> Iterator[Contest]:
    pairs = [("", "kshare", "aiokafka"), (", Arrow", "kshare Arrow", "aiokafka")]
    if "kafka-python" in contenders:
        for peer in ("kafka-python", "kafka-python with crc32c"):
            pairs += [("", "kshare", peer), (", uncompiled", "kshare uncompiled", peer)]
    for kind, ours, theirs in pairs:
        name = f"records {title}{kind}: kshare / {theirs}"
        yield Contest(TIME, f"{ours}, {title}", f"{theirs}, {title}", name)


def _batch(size: int, codec: Compression) -> tuple[bytes, int]:
    """A batch like a producer's: up to 64 KiB before compression, with values that compress about as well as JSON."""
    builder = BatchBuilder(compression=codec)
    while builder.size < _BATCH_BYTES:
        number = builder.record_count
        field = b'{"id": %d, "sum": %d} ' % (number, number * 7919 % 10007)
        builder.append((field * (size // len(field) + 1))[:size], timestamp=1_700_000_000_000 + number)
    return bytes(builder.build()), builder.record_count


def _ours(records: Any, data: bytes) -> Case:
    def run() -> int:
        count = 0
        for batch in records.read_batches(data):
            for record in batch:
                _ = record.offset
                _ = record.value
                count += 1
        return count

    return run


def _arrow(data: bytes, batches: int) -> Case:
    loaded = decoder("compiled")

    def run() -> int:
        columns = loaded.record_columns.RecordColumns()
        for _ in range(batches):
            for batch in loaded.records.read_batches(data):
                columns.append(batch.walk())
        taken = columns.take()
        arrays = [column_of_records(name, taken) for name in _COLUMNS]
        return len(arrays[0])

    return run


def _theirs(reader: Any, data: bytes) -> Case:
    def run() -> int:
        count = 0
        records = reader(data)
        while records.has_next():
            batch = records.next_batch()
            if not batch.validate_crc():
                raise AssertionError("checksum")
            for record in batch:
                _ = record.offset
                _ = record.value
                count += 1
        return count

    return run


def _kafka_python_alone(data: bytes) -> Case:
    """kafka-python without the package crc32c, as after `pip install kafka-python`."""
    case = _theirs(KafkaPythonRecords, data)

    def run() -> int:
        quick = default_records.calc_crc32c
        default_records.calc_crc32c = kafka_python_checksum
        try:
            return case()
        finally:
            default_records.calc_crc32c = quick

    return run
