"""The transaction coordinator: fencing, and how transactions end."""

from __future__ import annotations

import asyncio

import pytest

from kshare.broker.broker import Broker
from kshare.broker.clock import ManualClock
from kshare.broker.cluster import Cluster, Node, Partition
from kshare.broker.configs import Configs
from kshare.broker.connection import Call, ClientConnection
from kshare.broker.handlers import produce
from kshare.broker.request_error import RequestError
from kshare.broker.transactions import Transaction, Transactions, TransactionState
from kshare.protocol.messages import ProduceRequest
from kshare.protocol.messages.produce_request import PartitionProduceData, TopicProduceData
from kshare.protocol.records import ControlType
from tests.broker.batches import batch


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.transactions = Transactions(self.clock, lambda: 60_000)
        self.ended: list[tuple[int, bool]] = []
        self.transactions.ended.append(lambda producer, is_commit: self.ended.append((producer, is_commit)))
        ids = iter(bytes([number]) * 16 for number in range(1, 9))
        cluster = Cluster(Configs(), "cluster", lambda: next(ids))
        cluster.add_node(Node(1))
        self.partition: Partition = cluster.create_topic("t").partitions[0]

    def write(self, known: Transaction, sequence: int = 0) -> None:
        self.transactions.enlist(
            known.transactional_id, known.producer_id, known.epoch, self.partition, adds=True
        )
        records = batch(
            1, producer_id=known.producer_id, epoch=known.epoch, sequence=sequence, in_transaction=True
        )
        self.partition.log.append(records, now=0, leader_epoch=0)

    def last_marker(self) -> int:
        return self.partition.log.read(self.partition.log.end_offset - 1, 1).batches[0].decode().control_type


@pytest.mark.parametrize("bumps", [False, True])
@pytest.mark.parametrize("is_commit", [False, True])
def test_a_transaction_ends_with_a_marker(bumps: bool, is_commit: bool) -> None:
    world = World()
    known = world.transactions.begin_producer("tx", 1000)
    epoch = known.epoch
    world.write(known)
    assert world.partition.log.last_stable_offset == 0
    world.transactions.end("tx", known.producer_id, epoch, is_commit, bumps)
    assert world.last_marker() == (ControlType.COMMIT if is_commit else ControlType.ABORT)
    assert world.partition.log.last_stable_offset == 2
    assert len(world.partition.log.aborted) == (0 if is_commit else 1)
    assert world.ended == [(known.producer_id, is_commit)]
    assert known.epoch == epoch + bumps
    # A retry, as after a lost response, changes nothing.
    world.transactions.end("tx", known.producer_id, epoch, is_commit, bumps)
    assert world.partition.log.end_offset == 2
    with pytest.raises(RequestError, match=r"INVALID_TXN_STATE|PRODUCER_FENCED"):
        world.transactions.end("tx", known.producer_id, epoch, not is_commit, bumps)
    world.write(known, sequence=0 if bumps else 1)


def test_new_producer_fences_the_old_one_and_aborts_its_transaction() -> None:
    world = World()
    old = world.transactions.begin_producer("tx", 1000)
    producer_id, epoch = old.producer_id, old.epoch
    world.write(old)
    new = world.transactions.begin_producer("tx", 1000)
    assert (new.producer_id, new.state) == (producer_id, TransactionState.EMPTY)
    assert new.epoch > epoch
    assert world.last_marker() == ControlType.ABORT
    with pytest.raises(RequestError, match="PRODUCER_FENCED"):
        world.transactions.end("tx", producer_id, epoch, True, False)
    with pytest.raises(RequestError, match="INVALID_PRODUCER_EPOCH"):
        world.transactions.enlist("tx", producer_id, epoch, world.partition, adds=True)
    with pytest.raises(RequestError, match="PRODUCER_FENCED"):
        world.transactions.begin_producer("tx", 1000, producer_id, epoch)


def test_a_request_for_the_next_epoch_that_is_repeated_gets_the_same() -> None:
    world = World()
    known = world.transactions.begin_producer("tx", 1000)
    producer_id, epoch = known.producer_id, known.epoch
    for _ in range(2):
        assert world.transactions.begin_producer("tx", 1000, producer_id, epoch).epoch == epoch + 1
    assert world.transactions.begin_producer("tx", 1000, producer_id, epoch + 1).epoch == epoch + 2
    assert world.transactions.begin_producer("tx", 1000).epoch == epoch + 3
    with pytest.raises(RequestError, match="PRODUCER_FENCED"):
        world.transactions.begin_producer("tx", 1000, producer_id, epoch + 2)


def test_a_producer_that_asks_for_the_next_epoch_in_its_transaction_is_fenced() -> None:
    world = World()
    known = world.transactions.begin_producer("tx", 1000)
    world.write(known)
    with pytest.raises(RequestError, match="PRODUCER_FENCED"):
        world.transactions.begin_producer("tx", 1000, known.producer_id, known.epoch)
    assert world.last_marker() == ControlType.ABORT


def test_transaction_is_aborted_after_its_timeout() -> None:
    world = World()
    known = world.transactions.begin_producer("tx", 1000)
    epoch = known.epoch
    world.write(known)
    world.clock.advance(999)
    assert world.ended == []
    world.clock.advance(1)
    assert world.ended == [(known.producer_id, False)]
    assert known.state is TransactionState.ABORTED
    assert world.last_marker() == ControlType.ABORT
    with pytest.raises(RequestError, match="PRODUCER_FENCED"):
        world.transactions.end("tx", known.producer_id, epoch, True, False)


def test_partitions_must_be_added_to_the_transaction_first() -> None:
    world = World()
    known = world.transactions.begin_producer("tx", 1000)
    with pytest.raises(RequestError, match="INVALID_TXN_STATE"):
        world.transactions.enlist("tx", known.producer_id, known.epoch, world.partition, adds=False)
    world.transactions.add(known, [world.partition])
    world.transactions.enlist("tx", known.producer_id, known.epoch, world.partition, adds=False)
    with pytest.raises(RequestError, match="INVALID_PRODUCER_ID_MAPPING"):
        world.transactions.find("other", known.producer_id, known.epoch)


def test_exhausted_producer_epochs_get_a_new_producer_id() -> None:
    world = World()
    known = world.transactions.begin_producer("tx", 1000)
    known.epoch = 2**15 - 2
    old = known.producer_id
    again = world.transactions.begin_producer("tx", 1000)
    assert again.producer_id != old
    assert again.epoch == 0


def _in_its_last_epoch() -> tuple[World, Transaction, int]:
    """An open transaction with a record, and its producer id."""
    world = World()
    known = world.transactions.begin_producer("tx", 1000)
    known.epoch = 2**15 - 2
    world.write(known)
    return world, known, known.producer_id


@pytest.mark.parametrize("is_commit", [False, True])
def test_the_transaction_of_the_last_epoch_ends_under_its_own_producer_id(is_commit: bool) -> None:
    world, known, old = _in_its_last_epoch()
    world.transactions.end("tx", old, 2**15 - 2, is_commit, True)
    assert world.last_marker() == (ControlType.COMMIT if is_commit else ControlType.ABORT)
    assert world.partition.log.last_stable_offset == 2
    assert world.ended == [(old, is_commit)]
    assert known.producer_id != old
    assert known.epoch == 0
    # A retry, as after a lost response, gets the new id.
    again = world.transactions.end("tx", old, 2**15 - 2, is_commit, True)
    assert (again.producer_id, again.epoch) == (known.producer_id, 0)
    with pytest.raises(RequestError, match="INVALID_PRODUCER_ID_MAPPING"):
        world.transactions.end("tx", old, 2**15 - 2, not is_commit, True)
    world.write(known)


@pytest.mark.parametrize("is_expired", [False, True])
def test_a_transaction_of_the_last_epoch_is_aborted_under_its_own_producer_id(is_expired: bool) -> None:
    world, known, old = _in_its_last_epoch()
    if is_expired:
        world.clock.advance(1000)
    else:
        world.transactions.begin_producer("tx", 1000)
    assert world.last_marker() == ControlType.ABORT
    assert world.partition.log.last_stable_offset == 2
    assert world.ended == [(old, False)]
    assert known.producer_id != old
    with pytest.raises(RequestError, match="INVALID_PRODUCER_ID_MAPPING"):
        world.transactions.end("tx", old, 2**15 - 2, True, True)


def test_a_repeated_request_for_an_epoch_after_the_last_gets_the_same_producer_id() -> None:
    world = World()
    known = world.transactions.begin_producer("tx", 1000)
    old, known.epoch = known.producer_id, 2**15 - 2
    ids = [world.transactions.begin_producer("tx", 1000, old, 2**15 - 2).producer_id for _ in range(2)]
    assert ids == [old + 1] * 2
    # Another producer isn't its successor.
    world.transactions.begin_producer("tx", 1000)
    with pytest.raises(RequestError, match="PRODUCER_FENCED"):
        world.transactions.begin_producer("tx", 1000, old, 2**15 - 2)


@pytest.mark.parametrize(
    ("name", "records", "error"),
    [
        (None, batch(1, producer_id=0, epoch=0, sequence=0, in_transaction=True), 53),
        ("tx", batch(1, producer_id=0, epoch=0, sequence=0, in_transaction=True)[:16] + bytes(60), 2),
        ("tx", batch(1, producer_id=0, epoch=0, sequence=0, in_transaction=True), 0),
    ],
    ids=["without", "corrupt", "with"],
)
def test_a_transactional_batch_requires_a_transactional_id(
    name: str | None, records: bytes, error: int
) -> None:
    broker = Broker(clock=ManualClock())
    node = broker.cluster.nodes[1]
    log = broker.cluster.create_topic("t").partitions[0].log
    broker.transactions.begin_producer("tx", 1000)
    data = TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])
    request = ProduceRequest(transactional_id=name, acks=-1, topic_data=[data])
    call = Call(broker, node, ClientConnection(1, node, "127.0.0.1"), request.API_KEY, 12, "client")
    response = asyncio.run(produce.handle(request, call))
    assert response is not None
    assert response.responses[0].partition_responses[0].error_code == error
    assert log.end_offset == (0 if error else 1)


@pytest.mark.parametrize("timeout", [0, -1, 60_001])
def test_transaction_timeout_out_of_range_is_refused(timeout: int) -> None:
    with pytest.raises(RequestError, match="INVALID_TRANSACTION_TIMEOUT"):
        World().transactions.begin_producer("tx", timeout)
