"""Record batches, compared with the library's own reader: both show the same records, or both report a problem."""

from __future__ import annotations

from typing import Any

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshare.dissect import Dissection, dissect_records
from kshare.errors import DecodeError
from kshare.protocol.compression import Compression
from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.records import read_batches
from tests.dissect.tiling import assert_tiled

_CHECKSUM = slice(17, 21)
_CHECKED_FROM = 21
_TIMESTAMPS = st.integers(0, 2**45)
_BYTES = st.none() | st.binary(max_size=20)
_HEADERS = st.lists(st.tuples(st.text(max_size=5), _BYTES), max_size=2)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    builder = BatchBuilder(
        compression=draw(st.sampled_from(Compression)),
        base_offset=draw(st.integers(0, 2**40)),
        append_time=draw(st.none() | _TIMESTAMPS),
        producer_id=draw(st.integers(-1, 2**40)),
    )
    offset = builder.base_offset
    for _ in range(draw(st.integers(1, 4))):
        builder.append(
            draw(_BYTES), timestamp=draw(_TIMESTAMPS), key=draw(_BYTES), headers=draw(_HEADERS), offset=offset
        )
        offset += draw(st.integers(1, 300))
    return bytes(builder.build())


def _read(data: bytes) -> list[Any]:
    return [
        (record.offset, record.timestamp, record.key, record.value, record.headers)
        for batch in read_batches(data)
        for record in batch
    ]


def _shown(dissection: Dissection) -> list[Any]:
    records = []
    for _, batch in dissection.root.walk():
        if batch.kind == "record batch":
            [section] = [part for part in batch.parts if part.name == "records"]
            records += (section.inflated.root if section.inflated else section).parts
    return [_one(record.parts) for record in records]


def _one(parts: list[Any]) -> tuple[Any, ...]:
    _, _, timestamp, offset, key, value, headers = parts
    pairs = tuple((header.parts[0].value, header.parts[1].value) for header in headers.parts[1:])
    absolute = (int(offset.note.removeprefix("offset ")), int(timestamp.note.partition(",")[0]))
    return (*absolute, key.value, value.value, pairs)


@pytest.mark.lengthy
@settings(max_examples=150, database=None, derandomize=True)
@given(st.lists(batches(), max_size=3).map(b"".join))
def test_records_agree_with_the_reader(data: bytes) -> None:
    dissection = dissect_records(data)
    assert_tiled(dissection, data)
    assert dissection.problems == []
    assert _shown(dissection) == _read(data)


@pytest.mark.lengthy
@settings(max_examples=400, database=None, derandomize=True)
@given(batches(), st.integers(0, 2**32), st.integers(0, 255))
def test_both_refuse_damaged_records(data: bytes, position: int, byte: int) -> None:
    """The checksum is corrected, so that the damage itself is found."""
    mutant = bytearray(data)
    mutant[_CHECKED_FROM + position % (len(data) - _CHECKED_FROM)] = byte
    mutant[_CHECKSUM] = google_crc32c.value(bytes(mutant[_CHECKED_FROM:])).to_bytes(4, "big")
    dissection = dissect_records(mutant)
    assert_tiled(dissection, bytes(mutant))
    reasons = [problem.reason for problem in dissection.problems]
    try:
        records = _read(bytes(mutant))
    except DecodeError:
        return  # the reader may be stricter, for example about impossible offsets, which aren't a matter of layout
    assert all(reason.endswith("not UTF-8") for reason in reasons), reasons
    assert reasons or _shown(dissection) == records
