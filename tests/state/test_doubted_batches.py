"""Batches that may have moved are recognised when they come again at the same offset."""

from __future__ import annotations

from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.records import Batch, read_batches
from kshare.state.doubted_batches import MOST_REMEMBERED, DoubtedBatches

PARTITION, OTHER = (b"t" * 16, 0), (b"t" * 16, 1)


def batch(base: int, value: bytes = b"v") -> Batch:
    builder = BatchBuilder(base_offset=base)
    builder.append(value, timestamp=0, offset=base)
    (one,) = read_batches(builder.build())
    return one


def test_a_batch_is_recognised_at_the_same_offset_of_the_same_partition_alone() -> None:
    doubted = DoubtedBatches()
    assert not doubted.was_here(PARTITION, batch(5))
    assert not doubted.was_here(PARTITION, batch(6))
    assert not doubted.was_here(OTHER, batch(5))
    assert not doubted.was_here(PARTITION, batch(5, b"another"))
    assert doubted.was_here(PARTITION, batch(5))
    assert doubted.was_here(PARTITION, batch(5))


def test_the_oldest_are_forgotten() -> None:
    doubted = DoubtedBatches()
    for base in range(MOST_REMEMBERED + 1):
        doubted.was_here(PARTITION, batch(base))
    assert len(doubted) == MOST_REMEMBERED
    assert doubted.was_here(PARTITION, batch(1))
    assert not doubted.was_here(PARTITION, batch(0))
