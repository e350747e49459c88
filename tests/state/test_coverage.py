"""Which acquired offsets are covered by the batches of a response: records, gaps and unverified offsets."""

from __future__ import annotations

import struct

import pytest

from kshare.protocol import record_header
from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.records import Batch, Buffer
from kshare.state.coverage import LARGEST_RANGE, Coverage, RangeContents, wrong_ranges
from tests.helpers.batch_bytes import recheck


def batch(
    *offsets: int, base: int | None = None, last: int | None = None, is_control: bool = False
) -> bytearray:
    builder = BatchBuilder(
        base_offset=offsets[0] if base is None else base, is_control=is_control, is_transactional=is_control
    )
    for offset in offsets:
        builder.append(b"%d" % offset, key=b"\0\0\0\1", timestamp=0, offset=offset)
    return builder.build(last_offset=last)


def run(first: int, last: int) -> bytearray:
    return batch(*range(first, last + 1))


def of(records: Buffer, first: int, last: int) -> RangeContents:
    return Coverage(records, [(first, last)]).of(first, last)


def offsets(found: RangeContents) -> list[int]:
    return [batch.base_offset for batch in found.batches]


def test_complete_range_has_no_gaps() -> None:
    found = of(run(0, 4) + run(5, 9), 0, 9)
    assert (offsets(found), found.gaps, found.unverified, found.reason) == ([0, 5], [], [], None)


def test_compacted_offsets_within_and_between_batches_are_gaps() -> None:
    found = of(batch(0, 1, 4, last=6) + run(10, 12) + batch(20, base=18), 0, 20)
    assert found.gaps == [(2, 3), (5, 6), (7, 9), (13, 17), (18, 19)]
    assert found.unverified == []


def test_gaps_between_two_acquired_ranges_are_divided_between_them() -> None:
    coverage = Coverage(run(0, 4) + run(10, 14), [(0, 6), (7, 14)])
    assert coverage.of(0, 6).gaps == [(5, 6)]
    assert coverage.of(7, 14).gaps == [(7, 9)]


def test_control_batch_is_a_gap() -> None:
    found = of(run(0, 1) + batch(2, is_control=True), 0, 2)
    assert (found.gaps, found.unverified) == ([(2, 2)], [])


def test_offsets_outside_all_batches_are_unverified() -> None:
    found = of(run(10, 14), 8, 19)
    assert (offsets(found), found.gaps, found.unverified) == ([10], [], [(8, 9), (15, 19)])
    assert found.reason is not None
    assert "from offset 10 to 14" in found.reason
    assert not found.is_damaged
    found = of(b"", 0, 3)
    assert (found.unverified, found.reason) == ([(0, 3)], "the response has no batch")


def test_truncated_batch_is_unverified() -> None:
    found = of(run(0, 4) + run(5, 9)[:-1], 0, 9)
    assert (offsets(found), found.gaps, found.unverified) == ([0], [], [(5, 9)])
    assert found.is_damaged
    assert "left over after the last whole batch" in str(found.reason)


def test_partial_batch_after_the_acquired_offsets_is_normal() -> None:
    """Measured on 4.1.2, 4.3.1 and 4.4.0: after one whole batch, a response may contain part of the next."""
    found = of(run(0, 4) + run(5, 9)[:21], 0, 4)
    assert (offsets(found), found.unverified, found.reason) == ([0], [], None)


def test_corrupt_batch_and_the_gaps_beside_it_are_unverified() -> None:
    broken = run(10, 12)
    broken[-1] ^= 1
    found = of(run(0, 4) + broken + run(20, 24), 0, 24)
    assert (offsets(found), found.gaps) == ([0, 20], [])
    assert found.unverified == [(5, 9), (10, 12), (13, 19)]
    assert "checksum" in str(found.reason)
    assert found.is_damaged


def test_everything_after_an_invalid_header_is_unverified() -> None:
    strange = run(5, 9)
    strange[record_header.MAGIC_AT] = 7
    found = of(run(0, 4) + strange + run(10, 14), 0, 14)
    assert (offsets(found), found.gaps, found.unverified) == ([0], [], [(5, 14)])
    assert "format 7" in str(found.reason)


@pytest.mark.parametrize(
    "records",
    [run(5, 9) + run(0, 4), run(0, 4) + run(4, 9), run(0, 4) + run(0, 4), batch(0, 1, 2, last=5) + run(5, 9)],
    ids=["out of order", "overlapping", "twice", "wrong last offset delta"],
)
def test_contradictory_batches_are_all_unverified(records: bytes) -> None:
    found = of(records, 0, 9)
    assert (found.batches, found.gaps, found.unverified) == ([], [], [(0, 9)])
    assert found.is_damaged
    assert "begins before" in str(found.reason)


def test_offsets_out_of_range_are_unverified() -> None:
    for base, delta in ((-5, 4), (2**63 - 3, 4), (0, -1)):
        damaged = run(0, 4)
        struct.pack_into(">q", damaged, 0, base)
        struct.pack_into(">i", damaged, record_header.CHECKSUM_BEHIND + 2, delta)
        recheck(damaged)
        assert of(damaged, 0, 4).unverified == [(0, 4)]


def test_batch_beside_a_gap_must_end_where_its_header_says() -> None:
    """Its checksum is valid and its count fits its last offset delta. Only its records contradict it."""
    lying = run(0, 4)
    struct.pack_into(">i", lying, record_header.CHECKSUM_BEHIND + 2, 2)
    struct.pack_into(">i", lying, record_header.HEADER.size - 4, 3)
    recheck(lying)
    found = of(lying + run(5, 9), 0, 9)
    assert (offsets(found), found.gaps) == ([5], [])
    assert found.unverified == [(0, 2), (3, 4)]


def test_more_records_than_offsets_are_unverified() -> None:
    lying = run(0, 4)
    struct.pack_into(">i", lying, record_header.CHECKSUM_BEHIND + 2, 2)
    recheck(lying)
    found = of(lying, 0, 4)
    assert (found.batches, found.gaps, found.unverified) == ([], [], [(0, 2), (3, 4)])
    assert "5 records in 3 offsets" in str(found.reason)


def moved(data: bytearray, base: int) -> bytearray:
    struct.pack_into(">q", data, 0, base)
    return data


@pytest.mark.parametrize(
    ("records", "first", "last"),
    [
        (moved(run(5, 9), 4), 5, 9),
        (moved(run(5, 9), 7), 5, 9),
        (moved(run(0, 4), 2), 0, 4),
        (moved(run(5, 9), 1), 5, 9),
    ],
)
def test_single_moved_batch_is_unverified(records: bytes, first: int, last: int) -> None:
    found = of(records, first, last)
    assert found.gaps == []
    assert found.batches == []
    assert sum(end - start + 1 for start, end in found.unverified) == last - first + 1


def test_last_batch_moved_up_creates_no_gap() -> None:
    found = of(run(0, 4) + moved(run(5, 9), 7), 0, 9)
    assert (offsets(found), found.gaps, found.unverified) == ([0], [], [(5, 6), (7, 9)])
    found = of(run(0, 4) + moved(run(5, 9), 2**40), 0, 9)
    assert (offsets(found), found.gaps, found.unverified) == ([0], [], [(5, 9)])


def test_first_batch_moved_down_creates_no_gap() -> None:
    found = of(moved(run(8, 11), 6) + run(12, 15), 8, 15)
    assert (offsets(found), found.gaps, found.unverified) == ([12], [], [(8, 9), (10, 11)])


@pytest.mark.parametrize("is_near_limit", [False, True])
def test_seemingly_moved_batch_is_returned_once_it_came_twice_or_before_it_is_archived(
    is_near_limit: bool,
) -> None:
    """Part of a batch was acquired, and compaction removed the offsets after it. It must not be released forever."""
    asked: list[int] = []

    def was_here(batch: Batch) -> bool:
        asked.append(batch.base_offset)
        return len(asked) > 1 and not is_near_limit

    records = run(6, 9) + run(12, 15)
    first = Coverage(records, [(8, 15)], was_here=was_here).of(8, 15)
    again = Coverage(records, [(8, 8), (9, 15)], was_here=was_here)
    second, third = (again.of(*span, is_near_limit=is_near_limit) for span in ((8, 8), (9, 15)))
    assert (offsets(first), first.gaps, first.unverified) == ([12], [], [(8, 9), (10, 11)])
    assert first.moved == [(8, 9)]
    assert (offsets(second), second.gaps, second.unverified) == ([6], [], [])
    assert (offsets(third), third.gaps, third.unverified) == ([6, 12], [], [(10, 11)])
    assert not third.is_damaged
    assert asked == [6, 6]


def test_part_of_a_batch_may_be_acquired() -> None:
    """Record-limit mode. Nothing is missing."""
    found = of(run(0, 9) + run(10, 19), 5, 12)
    assert (offsets(found), found.gaps, found.unverified) == ([0, 10], [], [])


def test_impossible_ranges_are_named() -> None:
    wrong = wrong_ranges([(0, 4), (3, 8), (9, 7), (10, 10 + LARGEST_RANGE), (-3, -1), (20, 21)])
    assert list(wrong) == [1, 2, 3, 4]
    assert list(wrong.values()) == [
        "acquired offsets 3 to 8, not after 4",
        "acquired offsets 9 to 7, not after 4",
        f"{LARGEST_RANGE + 1} offsets acquired at once, from 10 to {10 + LARGEST_RANGE}",
        "acquired offsets -3 to -1, not after 4",
    ]
