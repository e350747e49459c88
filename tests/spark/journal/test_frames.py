"""Frames: written and read back, and every kind of damage is recognized."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.spark.journal.frames import Frame, JournalDamaged, decode, encode, skip
from kshare.spark.ranges import RecordRange

TOPIC_ID = str(UUID(int=7))
FRAME = Frame(
    journal="j",
    writer="w",
    group="shipping",
    member="m",
    start=100,
    done=40,
    at=1_700_000_000_000,
    size=512,
    ranges=(
        RecordRange("orders", TOPIC_ID, 0, 5, 9, 1),
        RecordRange("orders", TOPIC_ID, 0, 20, 20, 3),
        RecordRange("orders", TOPIC_ID, 11, 0, 99, 1),
    ),
)


def test_a_frame_is_read_as_it_was_written() -> None:
    assert decode(encode(FRAME)) == FRAME
    assert FRAME.end == 100 + 5 + 1 + 100


@given(data=st.data())
def test_a_damaged_frame_is_recognized(data: st.DataObject) -> None:
    whole = bytearray(encode(FRAME))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(JournalDamaged):
        decode(bytes(whole))


@given(size=st.integers(0, len(encode(FRAME)) - 1))
def test_a_torn_frame_is_recognized(size: int) -> None:
    with pytest.raises(JournalDamaged):
        decode(encode(FRAME)[:size])


@pytest.mark.parametrize("foreign", [None, b"", b"{}", b"KSJ1", b"KSJ2" + bytes(20)])
def test_foreign_bytes_are_recognized(foreign: bytes | None) -> None:
    with pytest.raises(JournalDamaged, match="isn't a frame"):
        decode(foreign)


@pytest.mark.parametrize(
    ("records", "left"),
    [
        (-3, [(5, 9), (20, 20), (0, 99)]),
        (0, [(5, 9), (20, 20), (0, 99)]),
        (2, [(7, 9), (20, 20), (0, 99)]),
        (5, [(20, 20), (0, 99)]),
        (6, [(0, 99)]),
        (16, [(10, 99)]),
        (106, []),
    ],
)
def test_records_are_skipped_in_order(records: int, left: list[tuple[int, int]]) -> None:
    assert [(range_.first, range_.last) for range_ in skip(FRAME.ranges, records)] == left
