"""The transaction coordinator: producer ids, epochs, and the state of transactions.

    Empty ──write──▶ Ongoing ──commit──▶ CompleteCommit ──write──▶ Ongoing ...
                        └────abort─────▶ CompleteAbort  ──write──▶ Ongoing ...

Decides which producer may write with a transactional id: the last that was initialized, with its epoch. The end of a
transaction writes its markers at once, because all logs are in this process: there are no "prepared" states, and no
client has to wait. A transaction that exceeds its producer's timeout is aborted, and the producer is fenced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from kshare.broker.clock import Clock, Timer
from kshare.broker.cluster import Partition, Topic
from kshare.broker.notifiers import Notifier
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.record_builder import build_end_marker
from kshare.protocol.records import ControlType

_LAST_EPOCH = 2**15 - 2
"""Of a producer. The one after it is only for the markers of its last transaction."""


class TransactionState(StrEnum):
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    COMMITTED = "CompleteCommit"
    ABORTED = "CompleteAbort"


@dataclass(slots=True)
class Transaction:
    """The state of one transactional id."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: set[Partition] = field(default_factory=set)
    began: int = -1
    timer: Timer | None = None
    last_epoch: int = -1
    """The epoch before, if its producer has requested the next one: the same request again returns the current one."""
    last_producer_id: int = -1
    """The producer id before, whose epochs ran out. Its producer may repeat the request that it got the new one for."""

    def follows(self, producer_id: int, epoch: int) -> bool:
        """Whether its epoch is the one after this, or the first of a new id because this was the last one."""
        if producer_id == self.producer_id:
            return epoch == self.epoch - 1
        return (producer_id, epoch, self.epoch) == (self.last_producer_id, _LAST_EPOCH, 0)


class Transactions:
    """All producers. Calls `ended` with (producer id, committed) after each transaction, for pending offsets."""

    def __init__(self, clock: Clock, longest_ms: Callable[[], int]) -> None:
        self._clock = clock
        self._longest_ms = longest_ms
        self.next_producer_id = 0
        self.by_id: dict[str, Transaction] = {}
        self.ended: list[Callable[[int, bool], None]] = []
        self.changed = Notifier()

    # --- ids

    def new_producer_id(self) -> int:
        self.next_producer_id += 1
        self.changed.fire()
        return self.next_producer_id - 1

    def begin_producer(
        self, transactional_id: str, timeout_ms: int, producer_id: int = -1, epoch: int = -1
    ) -> Transaction:
        """Give a transactional id to a producer. Aborts an open transaction of the last one. Raises RequestError."""
        if not 0 < timeout_ms <= self._longest_ms():
            raise RequestError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        transaction = self.by_id.get(transactional_id)
        if transaction is None:
            fresh = Transaction(transactional_id, self.new_producer_id(), 0, timeout_ms)
            self.by_id[transactional_id] = fresh
            self.changed.fire()
            return fresh
        is_ours = (producer_id, epoch) == (transaction.producer_id, transaction.epoch)
        is_repeated = epoch == transaction.last_epoch and transaction.follows(producer_id, epoch)
        if producer_id >= 0 and not is_ours and not is_repeated:
            raise RequestError(ErrorCode.PRODUCER_FENCED)
        if transaction.state is TransactionState.ONGOING:
            transaction.epoch += 1  # for the markers, too
            self._finish(transaction, is_commit=False)
            transaction.last_epoch = -1
            if producer_id >= 0:
                # Kafka says CONCURRENT_TRANSACTIONS, and this when the producer repeats the request.
                raise RequestError(ErrorCode.PRODUCER_FENCED)
        elif is_repeated:
            return transaction
        transaction.last_epoch = transaction.epoch if is_ours else -1
        transaction.epoch += 1
        self._renew_id(transaction)
        if not is_ours:
            transaction.last_producer_id = -1
        transaction.state, transaction.timeout_ms = TransactionState.EMPTY, timeout_ms
        self.changed.fire()
        return transaction

    def _renew_id(self, transaction: Transaction) -> None:
        """Give it another producer id if its epochs have run out."""
        if transaction.epoch > _LAST_EPOCH:
            transaction.last_producer_id = transaction.producer_id
            transaction.producer_id, transaction.epoch = self.new_producer_id(), 0

    # --- the content of a transaction

    def find(self, transactional_id: str, producer_id: int, epoch: int) -> Transaction:
        """The transaction. Raises RequestError if it has another producer or epoch."""
        transaction = self.by_id.get(transactional_id)
        if transaction is None or transaction.producer_id != producer_id:
            raise RequestError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if transaction.epoch != epoch:
            raise RequestError(ErrorCode.PRODUCER_FENCED)
        return transaction

    def enlist(
        self, transactional_id: str, producer_id: int, epoch: int, partition: Partition, *, adds: bool
    ) -> None:
        """Check a write. If `adds`, the partition is added; else it must be in the transaction. Raises RequestError."""
        try:
            transaction = self.find(transactional_id, producer_id, epoch)
        except RequestError as refusal:
            if refusal.code == ErrorCode.PRODUCER_FENCED:
                raise RequestError(ErrorCode.INVALID_PRODUCER_EPOCH) from None
            raise
        if adds:
            self.add(transaction, [partition])
        elif transaction.state is not TransactionState.ONGOING or partition not in transaction.partitions:
            raise RequestError(ErrorCode.INVALID_TXN_STATE)

    def add(self, transaction: Transaction, partitions: list[Partition]) -> None:
        """Add partitions to the transaction. Begins it if necessary, even without partitions: for offsets."""
        if transaction.state is not TransactionState.ONGOING:
            transaction.state, transaction.began = TransactionState.ONGOING, self._clock.now()
            transaction.partitions.clear()
            transaction.timer = self._clock.after(transaction.timeout_ms, lambda: self._expire(transaction))
            self.changed.fire()
        if not transaction.partitions.issuperset(partitions):
            transaction.partitions.update(partitions)
            self.changed.fire()

    def forget_topic(self, topic: Topic) -> None:
        """Its partitions leave their transactions: a new topic of the same name isn't in them."""
        for transaction in self.by_id.values():
            transaction.partitions.difference_update(topic.partitions)

    def restore(self, transaction: Transaction) -> None:
        """Restore a transaction from a data folder. If it is open, its timeout starts again."""
        self.by_id[transaction.transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            transaction.timer = self._clock.after(transaction.timeout_ms, lambda: self._expire(transaction))

    # --- ends

    def end(
        self, transactional_id: str, producer_id: int, epoch: int, is_commit: bool, bumps: bool
    ) -> Transaction:
        """Commit or abort. With `bumps`, the producer gets a new epoch. Raises RequestError."""
        transaction = self.by_id.get(transactional_id)
        wanted = TransactionState.COMMITTED if is_commit else TransactionState.ABORTED
        is_wanted = bumps and transaction is not None and transaction.state is wanted
        if transaction is not None and is_wanted and transaction.follows(producer_id, epoch):
            return transaction  # the request is repeated
        transaction = self.find(transactional_id, producer_id, epoch)
        if transaction.state is not TransactionState.ONGOING:
            may_abort_nothing = bumps and not is_commit
            if not may_abort_nothing and (transaction.state is not wanted or bumps):
                raise RequestError(ErrorCode.INVALID_TXN_STATE)
            if not may_abort_nothing:
                return transaction
        if bumps:
            transaction.epoch += 1  # for the markers, too
        self._finish(transaction, is_commit)
        return transaction

    def _finish(self, transaction: Transaction, is_commit: bool) -> None:
        if transaction.timer is not None:
            transaction.timer.cancel()
        now = self._clock.now()
        for partition in transaction.partitions:
            if partition.log.producers.has_open(transaction.producer_id):
                marker = build_end_marker(
                    ControlType.COMMIT if is_commit else ControlType.ABORT,
                    producer_id=transaction.producer_id,
                    producer_epoch=transaction.epoch,
                    timestamp=now,
                )
                partition.log.append(marker, now=now, leader_epoch=partition.leader_epoch, from_client=False)
        transaction.partitions.clear()
        transaction.state = TransactionState.COMMITTED if is_commit else TransactionState.ABORTED
        for callback in self.ended:
            callback(transaction.producer_id, is_commit)
        self._renew_id(transaction)
        self.changed.fire()

    def _expire(self, transaction: Transaction) -> None:
        if transaction.state is TransactionState.ONGOING:
            transaction.epoch += 1  # for the markers, too
            self._finish(transaction, is_commit=False)
