"""The position when reading a partition. Damaged batches never skip records: the task fails, or fetches again."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from kshare.admin.log_reading import FetchedBatches
from kshare.errors import CorruptBatchError
from kshare.protocol import record_header
from kshare.protocol.record_builder import BatchBuilder
from kshare.spark.executor.cursor import Cursor

LOG = [(0, 4), (5, 9), (10, 14), (20, 24), (25, 29)]
"""The first and last offsets of batches. Compaction has removed 15 to 19."""


def batch(first: int, last: int) -> bytearray:
    builder = BatchBuilder(base_offset=first)
    for offset in range(first, last + 1):
        builder.append(b"%d" % offset, timestamp=0, offset=offset)
    return builder.build()


def fetch(*spans: tuple[int, int], moved: dict[int, int] | None = None) -> FetchedBatches:
    """Batches of these offsets. `moved` maps first offsets to wrong base offsets."""
    data = bytearray()
    for span in spans:
        one = batch(*span)
        struct.pack_into(">q", one, 0, (moved or {}).get(span[0], span[0]))
        data += one
    return FetchedBatches(data, [], 0, 100)


def at(offset: int, most: int = 2) -> list[tuple[int, int]]:
    """The batches that a broker returns for a fetch at this offset."""
    return [span for span in LOG if span[1] >= offset][:most]


def read(cursor: Cursor, found: FetchedBatches) -> list[tuple[int, bytes | None]]:
    return [
        (record.offset, record.value)
        for found_batch, ranges in cursor.take(found)
        for record in found_batch.records([(first, last) for first, last, _ in ranges])
    ]


def all_of(*spans: tuple[int, int]) -> list[tuple[int, bytes]]:
    return [(offset, b"%d" % offset) for first, last in spans for offset in range(first, last + 1)]


@pytest.mark.parametrize("most", [1, 2, 3, 9])
def test_everything_is_read_once_and_gaps_are_skipped(most: int) -> None:
    cursor = Cursor([(2, 7, 1), (12, 27, 1)])
    found: list[tuple[int, bytes | None]] = []
    for _ in range(40):
        if not cursor.is_done:
            found += read(cursor, fetch(*at(cursor.offset, most)))
    assert found == all_of((2, 7), (12, 14), (20, 27))


@pytest.mark.parametrize("ranges", [[(0, 29, 1)], [(3, 11, 1)], [(5, 9, 1)], [(2, 7, 1), (12, 27, 1)]])
@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("bit", range(12))
@pytest.mark.parametrize("turn", [0, 1])
def test_a_flipped_bit_in_a_base_offset_skips_no_record(
    ranges: Sequence[tuple[int, int, int]], most: int, bit: int, turn: int
) -> None:
    """The bit is flipped in any batch of one response. Either the records are correct, or the task fails."""
    wanted = all_of(*((first, last) for first, last, _ in ranges))
    wanted = [record for record in wanted if not 15 <= record[0] <= 19]
    for hit in LOG:
        cursor, found = Cursor(ranges), []
        try:
            for number in range(40):
                if cursor.is_done:
                    break
                moved = {hit[0]: hit[0] ^ 1 << bit} if number == turn else None
                found += read(cursor, fetch(*at(cursor.offset, most), moved=moved))
        except CorruptBatchError:
            continue
        assert [offset for offset, _ in found] == [offset for offset, _ in wanted], (hit, bit)


def test_a_batch_beyond_all_ranges_is_fetched_again() -> None:
    cursor = Cursor([(10, 14, 1)])
    moved = fetch((10, 14), moved={10: 10 + 2**40})
    assert read(cursor, moved) == []
    assert (cursor.is_done, cursor.offset) == (False, 10)
    assert read(cursor, fetch((10, 14))) == all_of((10, 14))


def test_batches_that_contradict_each_other_fail_the_task() -> None:
    for moved in ({0: 3}, {5: 4}, {5: 0}, {10: 6}):
        with pytest.raises(CorruptBatchError, match="and the previous one"):
            read(Cursor([(0, 14, 1)]), fetch((0, 4), (5, 9), (10, 14), moved=moved))
    cursor = Cursor([(0, 14, 1)])
    read(cursor, fetch((0, 4), (5, 9)))
    with pytest.raises(CorruptBatchError, match="an earlier one ended at 9"):
        read(cursor, fetch((10, 14), moved={10: 8}))


def test_the_end_of_a_skipped_batch_is_checked() -> None:
    """Its last offset delta is protected by its checksum."""
    lying = batch(5, 9)
    struct.pack_into(">i", lying, record_header.CHECKSUM_BEHIND + 2, 9)
    with pytest.raises(CorruptBatchError, match="checksum"):
        read(Cursor([(0, 4, 1), (12, 14, 1)]), FetchedBatches(batch(0, 4) + lying, [], 0, 100))


def test_a_corrupt_batch_between_the_ranges_is_ignored() -> None:
    broken = batch(5, 9)
    broken[-1] ^= 1
    cursor = Cursor([(0, 4, 1), (10, 14, 1)])
    found = read(cursor, FetchedBatches(batch(0, 4) + broken + batch(10, 14), [], 0, 100))
    assert found == all_of((0, 4), (10, 14))
