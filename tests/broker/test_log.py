"""The log of one partition, without sockets or files."""

from __future__ import annotations

import pytest

from kshare.broker.log import LogLimits, PartitionLog
from kshare.broker.request_error import RequestError
from kshare.protocol.compression import Compression
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.record_builder import assign_append_time, build_end_marker
from kshare.protocol.record_header import HEADER
from kshare.protocol.records import ControlType, read_batches
from tests.broker.batches import batch


def log_of(*counts: int) -> PartitionLog:
    log = PartitionLog()
    for count in counts:
        log.append(batch(count), now=5000, leader_epoch=3)
    return log


def test_offsets_are_consecutive_and_bytes_are_unchanged() -> None:
    log = log_of(3, 2)
    appended = log.append(batch(4, compression=Compression.LZ4), now=5000, leader_epoch=7)
    assert (appended.base_offset, appended.last_offset, appended.append_time) == (5, 8, -1)
    assert (log.start_offset, log.end_offset, log.high_watermark, log.last_stable_offset) == (0, 9, 9, 9)
    found = list(read_batches(log.read(0, 1_000_000).data()))
    assert [(each.base_offset, each.last_offset, each.leader_epoch) for each in found] == [
        (0, 2, 3),
        (3, 4, 3),
        (5, 8, 7),
    ]
    assert [record.offset for each in found for record in each] == list(range(9))
    assert found[2].compression == Compression.LZ4


def test_reads_return_whole_batches_and_at_least_one() -> None:
    log = log_of(3, 3, 3)
    size = log.read(0, 1).size
    assert [each.base_offset for each in log.read(4, 1).batches] == [3]
    assert [each.base_offset for each in log.read(4, 2 * size).batches] == [3, 6]
    assert [each.base_offset for each in log.read(0, 2 * size + 1).batches] == [0, 3]
    assert [each.base_offset for each in log.read(0, 9 * size, end=6).batches] == [0, 3]
    assert not log.read(9, 100)


def test_deleting_records_moves_the_start_and_drops_whole_batches() -> None:
    log, seen = log_of(3, 3, 3), list[int]()
    log.on_start_moved = seen.append
    log.delete_before(4)
    assert (log.start_offset, log.end_offset) == (4, 9)
    assert [each.base_offset for each in log.read(4, 10_000).batches] == [3, 6]
    log.delete_before(2)
    assert log.start_offset == 4
    log.delete_before(9)
    assert not log.read(9, 10_000)
    assert log.size == 0
    assert log.append(batch(), now=0, leader_epoch=0).base_offset == 9
    assert seen == [4, 9]


def test_invalid_batch_is_refused_and_changes_nothing() -> None:
    log, good = log_of(1), batch(2)
    flipped = bytearray(good)
    flipped[-1] ^= 1
    for bad, code in (
        (bytes(flipped), ErrorCode.CORRUPT_MESSAGE),
        (good[:-1], ErrorCode.INVALID_RECORD),
        (good + good, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (good[:16] + b"\1" + good[17:], ErrorCode.CORRUPT_MESSAGE),
    ):
        with pytest.raises(RequestError) as refused:
            log.append(bad, now=0, leader_epoch=0)
        assert refused.value.code == code
    log.limits = LogLimits(max_batch_bytes=len(good) - 1)
    with pytest.raises(RequestError, match="MESSAGE_TOO_LARGE"):
        log.append(good, now=0, leader_epoch=0)
    assert log.end_offset == 1


def test_records_that_cannot_be_read_are_refused_although_the_checksum_is_right() -> None:
    log = PartitionLog()
    broken = bytearray(batch(2))
    broken[HEADER.size] ^= 2  # the length of the first record
    assign_append_time(broken, 0)  # computes the checksum
    with pytest.raises(RequestError, match="INVALID_RECORD"):
        log.append(broken, now=0, leader_epoch=0)
    assert log.end_offset == 0


def test_append_time_replaces_timestamps() -> None:
    log = PartitionLog(LogLimits(uses_append_time=True))
    assert log.append(batch(2), now=777, leader_epoch=0).append_time == 777
    (stored,) = log.read(0, 10_000).batches
    assert [record.timestamp for record in stored.decode()] == [777, 777]


def test_offsets_are_found_by_timestamp() -> None:
    log = PartitionLog()
    for start in (1000, 2000, 1500):
        log.append(batch(3, timestamp=start), now=0, leader_epoch=0)
    assert log.first_from(0) == (1000, 0)
    assert log.first_from(1002) == (1002, 2)
    assert log.first_from(1003) == (2000, 3)
    assert log.first_from(9000) is None
    assert log.largest_timestamp() == (2002, 5)
    assert PartitionLog().largest_timestamp() == (-1, -1)


def test_end_offsets_of_leader_epochs() -> None:
    log = PartitionLog()
    for epoch in (0, 0, 2, 5):
        log.append(batch(2), now=0, leader_epoch=epoch)
    assert [log.epoch_end(epoch) for epoch in (0, 1, 2, 4, 5, 9)] == [
        (0, 4),
        (0, 4),
        (2, 6),
        (2, 6),
        (5, 8),
        (5, 8),
    ]
    assert PartitionLog().epoch_end(3) == (-1, -1)


def test_duplicate_batch_gets_its_first_offset_and_one_out_of_order_is_refused() -> None:
    log = PartitionLog()
    first = batch(3, producer_id=9, epoch=0, sequence=0)
    assert log.append(first, now=0, leader_epoch=0).base_offset == 0
    assert log.append(batch(2), now=0, leader_epoch=0).base_offset == 3
    again = log.append(first, now=0, leader_epoch=0)
    assert (again.base_offset, again.last_offset, log.end_offset) == (0, 2, 5)
    for wrong in (batch(1, producer_id=9, epoch=0, sequence=4), batch(2, producer_id=9, epoch=0, sequence=0)):
        with pytest.raises(RequestError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
            log.append(wrong, now=0, leader_epoch=0)
    assert log.append(batch(1, producer_id=9, epoch=1, sequence=0), now=0, leader_epoch=0).base_offset == 5
    with pytest.raises(RequestError, match="INVALID_PRODUCER_EPOCH"):
        log.append(batch(1, producer_id=9, epoch=0, sequence=3), now=0, leader_epoch=0)


def test_sequence_numbers_wrap_around() -> None:
    log = PartitionLog()
    log.append(batch(2, producer_id=9, epoch=0, sequence=2**31 - 2), now=0, leader_epoch=0)
    assert log.append(batch(1, producer_id=9, epoch=0, sequence=0), now=0, leader_epoch=0).base_offset == 2


def test_open_transactions_limit_the_last_stable_offset() -> None:
    log, woken = PartitionLog(), list[int]()
    log.append(batch(1), now=0, leader_epoch=0)
    for producer in (1, 2):
        log.append(
            batch(2, producer_id=producer, epoch=0, sequence=0, in_transaction=True), now=0, leader_epoch=0
        )
    log.appended.listen(lambda: woken.append(log.last_stable_offset))
    assert (log.last_stable_offset, log.high_watermark) == (1, 5)
    for producer, kind in ((1, ControlType.ABORT), (2, ControlType.COMMIT)):
        marker = build_end_marker(kind, producer_id=producer, producer_epoch=0, timestamp=0)
        log.append(marker, now=0, leader_epoch=0, from_client=False)
    assert woken == [3, 7]
    assert [(each.producer_id, each.first_offset, each.last_offset) for each in log.aborted] == [(1, 1, 5)]
    assert log.aborted_between(0, 1) == []
    assert log.aborted_between(2, 3) == log.aborted
    assert log.aborted_between(6, 7) == []


def test_clients_cannot_write_control_batches() -> None:
    marker = build_end_marker(ControlType.COMMIT, producer_id=1, producer_epoch=0, timestamp=0)
    with pytest.raises(RequestError, match="INVALID_RECORD"):
        PartitionLog().append(marker, now=0, leader_epoch=0)


def test_batches_that_were_not_flushed_are_lost() -> None:
    log, replaced = log_of(3, 2, 4), list[bool]()
    log.on_replaced = lambda: replaced.append(True)
    assert log.lose_from(9) == 9
    assert not replaced
    assert log.lose_from(4) == 5  # the batch that begins before stays
    assert (log.end_offset, log.high_watermark, replaced) == (5, 5, [True])
    assert [each.base_offset for each in log.read(0, 1_000_000).batches] == [0, 3]
    assert log.append(batch(), now=0, leader_epoch=4).base_offset == 5
    log.delete_before(6)
    assert log.lose_from(0) == 6
    assert log.size == 0


def test_a_producer_is_known_by_what_is_left_of_its_batches() -> None:
    log = PartitionLog()
    for sequence in range(3):
        log.append(batch(producer_id=7, epoch=0, sequence=sequence), now=0, leader_epoch=0)
    log.lose_from(1)
    with pytest.raises(RequestError) as caught:
        log.append(batch(producer_id=7, epoch=0, sequence=3), now=0, leader_epoch=0)
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append(batch(producer_id=7, epoch=0, sequence=1), now=0, leader_epoch=0).base_offset == 1


def test_a_lost_marker_leaves_its_transaction_open() -> None:
    log = PartitionLog()
    log.append(batch(producer_id=7, epoch=0, sequence=0, in_transaction=True), now=0, leader_epoch=0)
    marker = build_end_marker(ControlType.ABORT, producer_id=7, producer_epoch=0, timestamp=0)
    log.append(marker, now=0, leader_epoch=0, from_client=False)
    assert (log.last_stable_offset, len(log.aborted)) == (2, 1)
    log.lose_from(1)
    assert (log.last_stable_offset, log.aborted) == (0, [])
