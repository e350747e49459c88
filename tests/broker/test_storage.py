"""A data directory: what is restored after a restart, a kill or a torn write."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kafka import KafkaProducer

from kshare.broker.broker import Broker as State
from kshare.broker.classic_groups.offsets import CommittedOffset
from kshare.broker.clock import ManualClock
from kshare.broker.cluster import Partition
from kshare.broker.request_error import RequestError
from kshare.broker.settings import Resource
from kshare.broker.storage.folder import DataFolder
from kshare.broker.storage.log_file import LogFile
from kshare.broker.storage.snapshot import UnreadableFolder
from kshare.broker.transactions import TransactionState
from kshare.testing import Broker
from tests.broker.batches import batch

DEADLINE_S = 30.0


class Life:
    """One run of a broker with a data directory."""

    def __init__(self, path: Path, nodes: int = 1) -> None:
        self.state = State(clock=ManualClock(), nodes=nodes)
        self.folder = DataFolder(path)
        self.folder.attach(self.state)

    def partition(self, topic: str = "t", index: int = 0) -> Partition:
        return self.state.cluster.partition(topic, index)

    def append(self, records: bytes) -> int:
        return self.partition().log.append(records, now=0, leader_epoch=0).base_offset

    def end(self) -> None:
        self.folder.close()


def values(partition: Partition) -> list[bytes | None]:
    log = partition.log
    return [record.value for each in log.batches_from(log.start_offset) for record in each.decode()]


def test_everything_is_restored_after_a_restart(tmp_path: Path) -> None:
    life = Life(tmp_path)
    cluster = life.state.cluster
    topic = cluster.create_topic("t", 2, configs={"retention.ms": "77"})
    life.state.configs.replace(Resource.GROUP, "g", {"share.auto.offset.reset": "earliest"})
    for _ in range(3):
        life.append(batch(2))
    life.partition().log.delete_before(3)
    offsets = life.state.classic_groups.offsets
    offsets.commit("readers", ("t", 0), CommittedOffset(4, 0, "meta"))
    offsets.commit("readers", ("t", 1), CommittedOffset(9))
    offsets.forget("readers", [("t", 1)])
    life.state.transactions.new_producer_id()
    life.end()

    again = Life(tmp_path)
    assert again.state.cluster.cluster_id == cluster.cluster_id
    assert again.state.cluster.topics["t"].id == topic.id
    assert len(again.state.cluster.topics["t"].partitions) == 2
    assert again.state.configs.topic("t", "retention.ms") == "77"
    assert again.state.configs.group("g", "share.auto.offset.reset") == "earliest"
    partition = again.partition()
    assert (partition.log.start_offset, partition.log.end_offset, partition.leader_epoch) == (3, 6, 1)
    assert partition.leader == 1
    assert again.state.classic_groups.offsets.of("readers") == {("t", 0): CommittedOffset(4, 0, "meta")}
    assert again.state.transactions.new_producer_id() == 1
    assert again.append(batch(1)) == 6
    again.end()


def test_producers_and_transactions_are_restored(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.state.cluster.create_topic("t")
    known = life.state.transactions.begin_producer("tx", 1000)
    life.state.transactions.add(known, [life.partition()])
    records = batch(2, producer_id=known.producer_id, epoch=0, sequence=0, in_transaction=True)
    life.append(records)
    life.state.classic_groups.offsets.commit_later(known.producer_id, "g", ("t", 0), CommittedOffset(7))
    life.end()

    again = Life(tmp_path)
    assert again.state.classic_groups.offsets.is_pending("g", ("t", 0))
    assert again.append(records) == 0  # repeated, as if its response had been lost
    assert again.partition().log.last_stable_offset == 0
    found = again.state.transactions.by_id["tx"]
    assert found.state is TransactionState.ONGOING
    again.state.transactions.end("tx", found.producer_id, found.epoch, False, False)
    assert len(again.partition().log.aborted) == 1
    again.end()

    last = Life(tmp_path)
    assert last.partition().log.aborted == again.partition().log.aborted
    assert last.partition().log.last_stable_offset == 3
    assert not last.state.classic_groups.offsets.is_pending("g", ("t", 0))
    last.end()


def test_offset_of_a_transaction_survives_an_older_deletion_in_the_journal(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.state.cluster.create_topic("t")
    offsets = life.state.classic_groups.offsets
    offsets.commit("g", ("t", 0), CommittedOffset(3))
    offsets.forget("g", [("t", 0)])
    offsets.commit_later(5, "g", ("t", 0), CommittedOffset(7))
    life.end()
    again = Life(tmp_path)
    assert again.state.classic_groups.offsets.is_pending("g", ("t", 0))
    again.end()


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("start", "stable"),
    [
        pytest.param(1, 1, id="in its first batch"),
        pytest.param(2, 4, id="between its batches"),
        pytest.param(5, 5, id="in its last batch"),
        pytest.param(7, 8, id="behind it"),
    ],
)
def test_records_of_an_open_transaction_that_are_deleted(tmp_path: Path, start: int, stable: int) -> None:
    life = Life(tmp_path)
    life.state.cluster.create_topic("t")
    known = life.state.transactions.begin_producer("tx", 1000)
    life.state.transactions.add(known, [life.partition()])
    life.append(batch(2, producer_id=known.producer_id, epoch=0, sequence=0, in_transaction=True))
    life.append(batch(2))
    life.append(batch(2, producer_id=known.producer_id, epoch=0, sequence=2, in_transaction=True))
    life.append(batch(2))
    life.partition().log.delete_before(start)
    assert life.partition().log.last_stable_offset == stable
    life.end()
    again = Life(tmp_path)
    assert again.partition().log.last_stable_offset == stable
    again.state.transactions.end("tx", known.producer_id, 0, True, False)
    assert again.partition().log.last_stable_offset == again.partition().log.end_offset
    again.end()


def test_a_new_topic_of_the_same_name_is_in_no_transaction_of_the_old_one(tmp_path: Path) -> None:
    life = Life(tmp_path)
    topic = life.state.cluster.create_topic("t", 2)
    known = life.state.transactions.begin_producer("tx", 1000)
    life.state.transactions.add(known, [life.partition(index=1)])
    life.state.cluster.delete_topic(topic)
    life.state.cluster.create_topic("t")
    life.end()
    again = Life(tmp_path)
    assert again.state.transactions.by_id["tx"].partitions == set()
    again.end()


@pytest.mark.parametrize("torn", [b"\0", b"garbage" * 20, batch(1)[:-1], batch(3)[:40]])
def test_torn_last_write_is_truncated(tmp_path: Path, torn: bytes) -> None:
    life = Life(tmp_path)
    life.state.cluster.create_topic("t")
    life.append(batch(2))
    life.end()
    (file,) = (tmp_path / "logs").glob("*-0.log")
    whole = file.read_bytes()
    file.write_bytes(whole + torn)

    again = Life(tmp_path)
    assert again.append(batch(1)) == 2
    again.end()
    last = Life(tmp_path)
    assert values(last.partition()) == [b"value 0", b"value 1", b"value 0"]
    last.end()


@pytest.mark.lengthy
def test_log_truncated_anywhere_keeps_its_whole_batches(tmp_path: Path) -> None:
    sizes = []
    whole = b""
    for number in range(3):
        records = bytearray(batch(2))
        records[:8] = (2 * number).to_bytes(8, "big")
        whole += records
        sizes.append(len(whole))
    path = tmp_path / "log"
    for end in range(len(whole) + 1):
        path.write_bytes(whole[:end])
        kept = sum(size <= end for size in sizes)
        assert [each.base_offset for each in LogFile(path).restore()] == [2 * index for index in range(kept)]
        assert path.stat().st_size == (sizes[kept - 1] if kept else 0)


def test_files_of_a_deleted_topic_are_removed(tmp_path: Path) -> None:
    life = Life(tmp_path)
    topic = life.state.cluster.create_topic("t")
    life.append(batch(1))
    life.state.cluster.delete_topic(topic)
    life.end()
    assert list((tmp_path / "logs").iterdir()) == []
    again = Life(tmp_path)
    assert again.state.cluster.topics == {}
    again.end()


def test_deleted_records_stay_deleted_and_the_file_shrinks_on_restart(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.state.cluster.create_topic("t")
    for _ in range(10):
        life.append(batch(10))
    life.partition().log.delete_before(95)
    life.end()
    (file,) = (tmp_path / "logs").glob("*-0.log")
    before = file.stat().st_size
    again = Life(tmp_path)
    assert (again.partition().log.start_offset, again.partition().log.end_offset) == (95, 100)
    assert file.stat().st_size == before // 10
    again.end()


def test_a_file_shrinks_while_the_broker_runs(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.state.cluster.create_topic("t")
    large = batch(5000)
    while life.append(large) < 200_000:
        life.partition().log.delete_before(life.partition().log.end_offset)
    end = life.partition().log.end_offset
    (file,) = (tmp_path / "logs").glob("*-0.log")
    assert file.stat().st_size < 3 * 1024 * 1024 < 40 * len(large)
    # as after a kill: nothing more is written
    life.folder._lock.close()
    again = Life(tmp_path)
    assert again.partition().log.end_offset == end
    again.end()
    life.end()


def test_data_directory_is_locked(tmp_path: Path) -> None:
    life = Life(tmp_path)
    with pytest.raises(UnreadableFolder, match="another broker"):
        DataFolder(tmp_path)
    life.end()
    Life(tmp_path).end()


def test_unreadable_metadata_raises_unreadable_folder(tmp_path: Path) -> None:
    (tmp_path / "metadata.json").write_text('{"format": 99}')
    with pytest.raises(UnreadableFolder, match="format"):
        Life(tmp_path)
    (tmp_path / "metadata.json").write_text("{")
    with pytest.raises(UnreadableFolder, match="not valid JSON"):
        Life(tmp_path)


def test_remaining_node_leads_all_partitions(tmp_path: Path) -> None:
    life = Life(tmp_path, nodes=3)
    life.state.cluster.create_topic("t", 3, 1)
    life.end()
    again = Life(tmp_path)
    assert [each.leader for each in again.state.cluster.topics["t"].partitions] == [1, 1, 1]
    again.end()


def test_failed_append_changes_nothing(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.state.cluster.create_topic("t")
    life.append(batch(1))
    with pytest.raises(RequestError):
        life.append(batch(1)[:-1])
    life.end()
    again = Life(tmp_path)
    assert again.partition().log.end_offset == 1
    again.end()


@pytest.mark.lengthy
def test_acknowledged_records_survive_a_kill(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kshare.cli", "broker", "--port", "0", "--data-dir", str(tmp_path)]
    kept: list[bytes] = []
    for round_ in range(3):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            bootstrap = process.stdout.readline().split()[-1]
            producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=0)
            for number in range(50):
                value = b"%d-%d" % (round_, number)
                producer.send("t", value).get(timeout=DEADLINE_S)
                kept.append(value)
            process.send_signal(signal.SIGKILL)
            producer.close(timeout=0)
    with Broker(data_dir=tmp_path) as broker:
        assert [record.value for record in broker.records("t")] == kept
