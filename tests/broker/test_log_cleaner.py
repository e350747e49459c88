"""Retention and compaction."""

from __future__ import annotations

import pytest

from kshare.broker.broker import Broker
from kshare.broker.clock import ManualClock
from kshare.broker.cluster import Partition
from kshare.broker.request_error import RequestError
from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.records import read_batches


class World:
    def __init__(self, **configs: str) -> None:
        self.clock = ManualClock()
        self.broker = Broker(clock=self.clock)
        dotted = {name.replace("_", "."): value for name, value in configs.items()}
        self.partition: Partition = self.broker.cluster.create_topic("t", configs=dotted).partitions[0]

    def write(self, *records: tuple[bytes | None, bytes | None], age: int = 0) -> None:
        builder = BatchBuilder()
        for key, value in records:
            builder.append(value, key=key, timestamp=self.clock.now() - age)
        self.partition.log.append(builder.build(), now=self.clock.now(), leader_epoch=0)

    def left(self) -> list[tuple[int, bytes | None]]:
        log = self.partition.log
        data = log.read(log.start_offset, 1_000_000).data() if log.size else b""
        return [(record.offset, record.value) for batch in read_batches(data) for record in batch]


def test_old_batches_are_deleted() -> None:
    world = World(retention_ms="10000")
    world.write((None, b"0"), (None, b"1"))
    world.clock.advance(6000)
    world.write((None, b"2"))
    world.clock.advance(5000)
    assert world.left() == [(2, b"2")]
    world.clock.advance(6000)
    assert world.left() == []
    assert (world.partition.log.start_offset, world.partition.log.end_offset) == (3, 3)


def test_batches_beyond_the_retention_size_are_deleted() -> None:
    world = World(retention_bytes="300")
    for number in range(10):
        world.write((None, b"%d" % number * 50))
    world.clock.advance(1000)
    assert [offset for offset, _ in world.left()] == [7, 8, 9]


def test_only_the_last_record_of_a_key_is_kept() -> None:
    world = World(cleanup_policy="compact", segment_ms="100", delete_retention_ms="5000")
    world.write((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    world.write((b"a", b"3"))
    world.write((b"b", None))
    world.clock.advance(90)
    assert len(world.left()) == 5
    world.clock.advance(1000)
    # Records that the newest batch supersedes are kept until there is a newer one.
    assert world.left() == [(1, b"1"), (3, b"3"), (4, None)]
    world.write((b"c", b"1"))
    world.clock.advance(1000)
    assert world.left() == [(3, b"3"), (4, None), (5, b"1")]
    world.clock.advance(5000)
    world.write((b"d", b"1"))
    world.clock.advance(1000)
    assert world.left() == [(3, b"3"), (5, b"1"), (6, b"1")]
    log = world.partition.log
    assert (log.start_offset, log.end_offset) == (0, 7)
    assert [each.base_offset for each in log.read(1, 1).batches] == [3]


def test_timestamps_that_do_not_ascend_lose_no_record_and_double_none() -> None:
    world = World(cleanup_policy="compact", segment_ms="100")
    world.clock.advance(10_000)
    world.write((b"a", b"1"))
    world.write((b"a", b"2"))
    world.write((b"b", b"1"), age=-5000)
    world.write((b"c", b"1"))
    world.write((b"b", b"2"))
    world.write((b"a", b"3"))
    world.clock.advance(1000)
    # What is behind the batch that is too young isn't cleaned, and supersedes nothing.
    assert world.left() == [(1, b"2"), (2, b"1"), (3, b"1"), (4, b"2"), (5, b"3")]
    world.clock.advance(5000)
    assert world.left() == [(1, b"2"), (3, b"1"), (4, b"2"), (5, b"3")]


def test_compacted_batch_keeps_its_offset_range() -> None:
    world = World(cleanup_policy="compact", segment_ms="100")
    world.write((b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    world.write((b"a", b"2"), (b"c", b"2"))
    world.clock.advance(1000)
    world.write((b"x", b"1"))
    world.clock.advance(1000)
    first = world.partition.log.read(0, 1).batches[0]
    assert (first.base_offset, first.last_offset) == (0, 2)
    assert [(record.offset, record.key) for record in first.decode()] == [(1, b"b")]


def test_compacted_topic_refuses_records_without_key() -> None:
    with pytest.raises(RequestError, match="INVALID_RECORD"):
        World(cleanup_policy="compact").write((None, b"1"))
