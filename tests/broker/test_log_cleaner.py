"""Retention and compaction."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from random import Random

import pytest

from kshare.broker.broker import Broker
from kshare.broker.clock import ManualClock
from kshare.broker.cluster import Partition
from kshare.broker.request_error import RequestError
from kshare.broker.settings import Resource
from kshare.broker.storage.folder import DataFolder
from kshare.broker.transactions import Transaction
from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.records import read_batches


class World:
    def __init__(self, *, folder: Path | None = None, **configs: str) -> None:
        self.clock = ManualClock()
        self.broker = Broker(clock=self.clock)
        self.folder = None if folder is None else DataFolder(folder)
        if self.folder is not None:
            self.folder.attach(self.broker)
        dotted = {name.replace("_", "."): value for name, value in configs.items()}
        self.partition: Partition = self.broker.cluster.create_topic("t", configs=dotted).partitions[0]

    def write(self, *records: tuple[bytes | None, bytes | None], age: int = 0) -> None:
        self._append(BatchBuilder(), records, age)

    def write_as(
        self, known: Transaction, sequence: int, *records: tuple[bytes | None, bytes | None]
    ) -> None:
        """Write in a producer's transaction, which goes on."""
        self.broker.transactions.add(known, [self.partition])
        builder = BatchBuilder(
            producer_id=known.producer_id,
            producer_epoch=known.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        self._append(builder, records)

    def end(self, known: Transaction, *, is_commit: bool, bumps: bool = True) -> None:
        ids = known.transactional_id, known.producer_id, known.epoch
        self.broker.transactions.end(*ids, is_commit, bumps)

    def _append(
        self, builder: BatchBuilder, records: tuple[tuple[bytes | None, bytes | None], ...], age: int = 0
    ) -> None:
        for key, value in records:
            builder.append(value, key=key, timestamp=self.clock.now() - age)
        self.partition.log.append(builder.build(), now=self.clock.now(), leader_epoch=0)

    def bases(self) -> list[int]:
        return [batch.base_offset for batch in self.partition.log.batches_from(0)]

    def left(self) -> list[tuple[int, bytes | None]]:
        log = self.partition.log
        data = log.read(log.start_offset, 1_000_000).data() if log.size else b""
        return [
            (record.offset, record.value)
            for batch in read_batches(data)
            for record in batch
            if not batch.is_control
        ]


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


def test_records_stay_for_the_least_compaction_lag() -> None:
    world = World(cleanup_policy="compact", segment_ms="100", min_compaction_lag_ms="5000")
    world.write((b"a", b"1"))
    world.write((b"a", b"2"))
    world.write((b"x", b"1"))
    world.clock.advance(4900)
    assert world.left() == [(0, b"1"), (1, b"2"), (2, b"1")]
    world.clock.advance(500)
    assert world.left() == [(1, b"2"), (2, b"1")]


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


def test_records_without_key_are_removed_when_the_topic_becomes_compacted() -> None:
    world = World(segment_ms="100")
    world.write((b"", b"1"), (None, b"1"))
    world.write((None, b"2"))
    world.write((b"x", b"1"))
    values = {"cleanup.policy": "compact", "segment.ms": "100"}
    world.broker.configs.replace(Resource.TOPIC, "t", values)
    world.clock.advance(1000)
    assert world.left() == [(0, b"1"), (3, b"1")]


@pytest.mark.lengthy
def test_logs_of_deleted_topics_are_forgotten() -> None:
    world = World(cleanup_policy="compact", segment_ms="100")
    world.write((b"a", b"1"))
    world.clock.advance(1000)
    log = weakref.ref(world.partition.log)
    world.broker.cluster.delete_topic(world.partition.topic)
    del world.partition
    gc.collect()
    assert log() is None


class Reopened:
    """A compacted topic in a data folder, which is opened again to compare it."""

    def __init__(self, path: Path, **configs: str) -> None:
        self.path = path
        self.world = World(cleanup_policy="compact", segment_ms="100", folder=path, **configs)

    def compare(self) -> None:
        log = self.world.partition.log
        assert self.world.folder is not None
        self.world.folder.close()
        again = Broker(clock=ManualClock())
        folder = DataFolder(self.path)
        folder.attach(again)
        restored = again.cluster.partition("t", 0).log
        assert list(restored.batches_from(0)) == list(log.batches_from(0))
        assert (restored.start_offset, restored.end_offset) == (log.start_offset, log.end_offset)
        assert (restored.last_stable_offset, restored.size) == (log.last_stable_offset, log.size)
        assert {each.last_offset for each in restored.aborted} <= {each.last_offset for each in log.aborted}
        for producer_id, state in log.producers.items():
            found = dict(restored.producers.items())[producer_id]
            assert found.epoch == state.epoch
            assert list(found.written)[-1:] == list(state.written)[-1:]
        folder.close()


def test_a_deleted_value_of_a_transaction_does_not_come_back(tmp_path: Path) -> None:
    reopened = Reopened(tmp_path, delete_retention_ms="1000")
    world = reopened.world
    known = world.broker.transactions.begin_producer("tx", 60_000)
    world.write_as(known, 0, (b"a", b"secret"), (b"b", b"1"))
    world.end(known, is_commit=True)
    world.write((b"a", None), (b"b", b"2"))
    world.write((b"x", b"1"))
    world.clock.advance(500)
    assert world.left() == [(3, None), (4, b"2"), (5, b"1")]
    world.clock.advance(5000)
    world.write((b"x", b"2"))
    world.clock.advance(500)
    assert world.left() == [(4, b"2"), (5, b"1"), (6, b"2")]
    # The marker is the last batch of its producer: it has the epoch.
    assert world.bases() == [2, 3, 5, 6]
    reopened.compare()


def test_records_of_an_aborted_transaction_supersede_nothing_and_are_removed(tmp_path: Path) -> None:
    reopened = Reopened(tmp_path, delete_retention_ms="1000")
    world = reopened.world
    world.write((b"a", b"1"))
    known = world.broker.transactions.begin_producer("tx", 60_000)
    world.write_as(known, 0, (b"a", b"2"))
    world.write_as(known, 1, (b"b", b"2"))
    world.end(known, is_commit=False)
    world.write_as(known, 0, (b"c", b"3"))
    world.end(known, is_commit=True)
    world.write((b"x", b"1"))
    world.clock.advance(500)
    assert world.left() == [(0, b"1"), (4, b"3"), (6, b"1")]
    assert world.bases() == [0, 3, 4, 5, 6]
    world.clock.advance(1000)
    world.write((b"x", b"2"))
    world.clock.advance(500)
    # The marker of the aborted transaction is gone, and so is the transaction: readers would skip the next one, too.
    assert world.bases() == [0, 4, 5, 6, 7]
    assert world.partition.log.aborted == []
    reopened.compare()


def test_records_of_an_open_transaction_and_what_is_behind_them_stay(tmp_path: Path) -> None:
    reopened = Reopened(tmp_path)
    world = reopened.world
    world.write((b"a", b"1"))
    world.write((b"a", b"2"))
    known = world.broker.transactions.begin_producer("tx", 60_000)
    world.write_as(known, 0, (b"a", b"3"))
    world.write((b"b", b"1"))
    world.write((b"b", b"2"))
    world.write((b"x", b"1"))
    world.clock.advance(1000)
    assert world.left() == [(1, b"2"), (2, b"3"), (3, b"1"), (4, b"2"), (5, b"1")]
    assert world.partition.log.last_stable_offset == 2
    world.end(known, is_commit=True)
    world.write((b"x", b"2"))
    world.clock.advance(1000)
    assert world.left() == [(2, b"3"), (4, b"2"), (5, b"1"), (7, b"2")]
    reopened.compare()


@pytest.mark.parametrize("is_commit", [False, True])
def test_a_producer_goes_on_after_all_its_records_were_compacted(tmp_path: Path, is_commit: bool) -> None:
    reopened = Reopened(tmp_path, delete_retention_ms="0")
    world = reopened.world
    known = world.broker.transactions.begin_producer("tx", 60_000)
    world.write_as(known, 0, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    world.end(known, is_commit=is_commit, bumps=False)
    world.write((b"a", b"3"), (b"b", b"3"))
    world.write((b"x", b"1"))
    world.clock.advance(1000)
    assert world.left() == [(4, b"3"), (5, b"3"), (6, b"1")]
    # The sequence number is in an empty batch. While that is here, so is its marker.
    assert world.bases() == [0, 3, 4, 6]
    reopened.compare()


def test_a_thinned_batch_has_the_sequence_numbers_of_the_whole(tmp_path: Path) -> None:
    reopened = Reopened(tmp_path)
    world = reopened.world
    known = world.broker.transactions.begin_producer("tx", 60_000)
    world.write_as(known, 0, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"))
    world.end(known, is_commit=True, bumps=False)
    world.write((b"c", b"2"))
    world.write((b"x", b"1"))
    world.clock.advance(1000)
    assert world.left() == [(1, b"1"), (2, b"2"), (5, b"2"), (6, b"1")]
    reopened.compare()


def committed(world: World) -> dict[bytes, bytes]:
    """What a reader of committed records has at the end, by key."""
    log = world.partition.log
    table: dict[bytes, bytes | None] = {}
    for stored in log.read(log.start_offset, 1_000_000, log.last_stable_offset).batches:
        aborted = log.aborted_between(stored.base_offset, stored.last_offset + 1)
        if stored.is_control or stored.producer_id in {each.producer_id for each in aborted}:
            continue
        for record in stored.decode():
            table[bytes(record.key or b"")] = record.value
    return {key: value for key, value in table.items() if value is not None}


@pytest.mark.lengthy
@pytest.mark.parametrize("seed", range(20))
def test_compaction_changes_nothing_for_readers_of_committed_records(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    reopened = Reopened(tmp_path, delete_retention_ms=str(random.choice([0, 500, 5000])))
    world = reopened.world
    world.clock.advance(100_000)
    known = [world.broker.transactions.begin_producer(name, 60_000) for name in ("one", "two")]
    sequences = [0, 0]
    for number in range(80):
        key = b"k%d" % random.randrange(6)
        value = None if random.random() < 0.3 else b"%d" % number
        which = random.randrange(4)
        if which < 2:
            epoch = known[which].epoch
            world.write_as(known[which], sequences[which], (key, value))
            sequences[which] += 1
            if random.random() < 0.4:
                world.end(known[which], is_commit=random.random() < 0.6, bumps=random.random() < 0.5)
                sequences[which] *= known[which].epoch == epoch
        else:
            world.write((key, value), (b"k%d" % random.randrange(6), b"x"), age=random.randrange(-200, 200))
        before = committed(world)
        world.clock.advance(random.choice([0, 250, 1000]))
        assert committed(world) == before
    reopened.compare()
