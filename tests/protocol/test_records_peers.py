"""Compatibility with kafka-python and aiokafka: they read our batches, and we read theirs.

Here kafka-python has only gzip and no compression, and aiokafka all five codecs.
"""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record._crecords import DefaultRecordBatchBuilder as AioBuilder
from aiokafka.record._crecords import MemoryRecords as AioRecords
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from kshare.protocol.compression import Compression
from kshare.protocol.record_builder import BatchBuilder
from tests.helpers.uncompiled import IMPLEMENTATIONS, decoder

Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

implementations = pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
timestamps = st.integers(0, 2**45)
contents = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=8), contents), max_size=3)
records = st.lists(st.tuples(timestamps, contents, contents, headers), min_size=1, max_size=12)
plain_codecs = st.sampled_from([Compression.NONE, Compression.GZIP])
codecs = st.sampled_from(Compression)


def ours(rows: list[Row], codec: Compression, base_offset: int = 0) -> bytes:
    builder = BatchBuilder(compression=codec, base_offset=base_offset)
    for timestamp, key, value, pairs in rows:
        builder.append(value, key=key, timestamp=timestamp, headers=pairs)
    return bytes(builder.build())


def theirs(builder: Any, rows: list[Row]) -> bytes:
    for offset, (timestamp, key, value, pairs) in enumerate(rows):
        assert builder.append(offset, timestamp, key, value, pairs)
    return bytes(builder.build())


def read_by_peer(batches: Any) -> list[Row]:
    found: list[Row] = []
    while batches.has_next():
        batch = batches.next_batch()
        assert batch.validate_crc()
        found += [(r.timestamp, r.key, r.value, list(r.headers)) for r in batch]
    return found


def read_by_us(implementation: str, data: bytes) -> list[Row]:
    return [
        (record.timestamp, record.key, record.value, list(record.headers))
        for batch in decoder(implementation).records.read_batches(data)
        for record in batch
    ]


@pytest.mark.lengthy
@given(rows=records, codec=plain_codecs)
def test_kafka_python_reads_our_batches(rows: list[Row], codec: Compression) -> None:
    data = ours(rows, codec)
    assert read_by_peer(KafkaPythonRecords(data + data)) == rows + rows


@given(rows=records, codec=codecs)
def test_aiokafka_reads_our_batches(rows: list[Row], codec: Compression) -> None:
    assert read_by_peer(AioRecords(ours(rows, codec))) == rows


@implementations
@given(rows=records, codec=plain_codecs, is_transactional=st.booleans())
def test_we_read_kafka_pythons_batches(
    implementation: str, rows: list[Row], codec: Compression, is_transactional: bool
) -> None:
    builder = KafkaPythonBuilder(2, int(codec), is_transactional, 5, 6, 7, 1 << 30)
    data = theirs(builder, rows)
    assert read_by_us(implementation, data) == rows
    [batch] = decoder(implementation).records.read_batches(data)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 6, 7)
    assert batch.is_transactional == is_transactional


@implementations
@given(rows=records, codec=codecs)
def test_we_read_aiokafkas_batches(implementation: str, rows: list[Row], codec: Compression) -> None:
    builder = AioBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    assert read_by_us(implementation, theirs(builder, rows)) == rows


@pytest.mark.lengthy
@implementations
@settings(max_examples=20)
@given(codec=codecs, size=st.integers(0, 400_000), seed=st.randoms(use_true_random=False))
def test_large_values_in_both_directions(
    implementation: str, codec: Compression, size: int, seed: Any
) -> None:
    rows: list[Row] = [(0, None, seed.randbytes(size // 2) + bytes(size // 2), [])]
    data = ours(rows, codec)
    assert read_by_us(implementation, data) == rows
    assert read_by_peer(AioRecords(data)) == rows
