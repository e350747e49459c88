"""Building record batches, and what the builder refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.errors import EncodeError
from kshare.protocol.compression import Compression
from kshare.protocol.record_builder import BatchBuilder, assign_append_time, assign_offset, write_number
from kshare.protocol.records import read_batches


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, b"\x00"),
        (-1, b"\x01"),
        (63, b"\x7e"),
        (-64, b"\x7f"),
        (64, b"\x80\x01"),
        (2**31 - 1, b"\xfe\xff\xff\xff\x0f"),
        (-(2**31), b"\xff\xff\xff\xff\x0f"),
        (2**63 - 1, b"\xfe" + b"\xff" * 8 + b"\x01"),
        (-(2**63), b"\xff" * 9 + b"\x01"),
    ],
)
def test_varint_encoding(number: int, encoded: bytes) -> None:
    out = bytearray()
    write_number(out, number)
    assert bytes(out) == encoded


def test_the_bytes_of_a_small_batch() -> None:
    builder = BatchBuilder(base_offset=1, leader_epoch=2, producer_id=3, producer_epoch=4, base_sequence=5)
    builder.append(b"v", key=b"k", timestamp=1000, headers=[("h", None)])
    assert bytes(builder.build()).hex(" ") == (
        "00 00 00 00 00 00 00 01 00 00 00 3d 00 00 00 02 02 85 2d 95 ca 00 00 00 00 00 00 "
        "00 00 00 00 00 00 03 e8 00 00 00 00 00 00 03 e8 00 00 00 00 00 00 00 03 00 04 "
        "00 00 00 05 00 00 00 01 16 00 00 00 02 6b 02 76 02 02 68 01"
    )


def test_size_is_known_before_building() -> None:
    builder = BatchBuilder()
    assert builder.size == 61
    builder.append(b"v" * 100, timestamp=0)
    assert builder.size == len(builder.build())


@pytest.mark.parametrize("view", [memoryview(b"abcd").cast("I"), memoryview(b"a-b-c-d-")[::2]])
def test_the_length_of_a_view_is_in_bytes(view: memoryview) -> None:
    views, plain = BatchBuilder(), BatchBuilder()
    views.append(view, key=view, headers=[("name", view)], timestamp=5)
    plain.append(b"abcd", key=b"abcd", headers=[("name", b"abcd")], timestamp=5)
    assert views.build() == plain.build()


def test_offsets_must_ascend() -> None:
    builder = BatchBuilder(base_offset=10)
    with pytest.raises(EncodeError, match="offset: 9 is not after"):
        builder.append(b"", timestamp=0, offset=9)
    builder.append(b"", timestamp=0, offset=12)
    with pytest.raises(EncodeError, match="offset"):
        builder.append(b"", timestamp=0, offset=12)
    with pytest.raises(EncodeError, match="offset"):
        builder.append(b"", timestamp=0, offset=10 + 2**31)
    builder.append(b"", timestamp=0)
    with pytest.raises(EncodeError, match="last_offset"):
        builder.build(last_offset=12)


def test_empty_batch_needs_a_last_offset() -> None:
    with pytest.raises(EncodeError, match="last_offset"):
        BatchBuilder().build()


@given(
    base_offset=st.integers(0, 2**62), epoch=st.integers(-1, 2**31 - 1), timestamp=st.integers(-1, 2**63 - 1)
)
def test_offset_epoch_and_append_time_are_changed_in_place(
    base_offset: int, epoch: int, timestamp: int
) -> None:
    builder = BatchBuilder(compression=Compression.ZSTD)
    builder.append(b"a", timestamp=5)
    builder.append(b"b", timestamp=6)
    segment = builder.build() + builder.build()
    with memoryview(segment) as view, view[: len(segment) // 2] as first:
        assign_offset(first, base_offset, epoch)
        assign_append_time(first, timestamp)
    changed, untouched = read_batches(segment)
    assert (changed.leader_epoch, changed.max_timestamp) == (epoch, timestamp)
    assert [(r.offset, r.timestamp) for r in changed] == [
        (base_offset, timestamp),
        (base_offset + 1, timestamp),
    ]
    assert [(r.offset, r.timestamp) for r in untouched] == [(0, 5), (1, 6)]
