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
from kshare.broker.cluster import Partition
from kshare.broker.request_error import RequestError
from kshare.broker.signals import Signal
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.record_builder import build_end_marker
from kshare.protocol.records import ControlType

_LAST_EPOCH = 2**15 - 2


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


class Transactions:
    """All producers. Calls `ended` with (producer id, committed) after each transaction, for pending offsets."""

    def __init__(self, clock: Clock, longest_ms: Callable[[], int]) -> None:
        self._clock = clock
        self._longest_ms = longest_ms
        self.next_producer_id = 0
        self.by_id: dict[str, Transaction] = {}
        self.ended: list[Callable[[int, bool], None]] = []
        self.changed = Signal()

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
        known = self.by_id.get(transactional_id)
        if known is None:
            fresh = Transaction(transactional_id, self.new_producer_id(), 0, timeout_ms)
            self.by_id[transactional_id] = fresh
            self.changed.fire()
            return fresh
        if producer_id >= 0 and (producer_id, epoch) != (known.producer_id, known.epoch):
            raise RequestError(ErrorCode.PRODUCER_FENCED)
        if known.state is TransactionState.ONGOING:
            self._bump(known)
            self._finish(known, is_commit=False)
        self._bump(known)
        known.state, known.timeout_ms = TransactionState.EMPTY, timeout_ms
        self.changed.fire()
        return known

    def _bump(self, known: Transaction) -> None:
        if known.epoch >= _LAST_EPOCH:
            known.producer_id, known.epoch = self.new_producer_id(), 0
        else:
            known.epoch += 1

    # --- the content of a transaction

    def find(self, transactional_id: str, producer_id: int, epoch: int) -> Transaction:
        """The transaction. Raises RequestError if it has another producer or epoch."""
        known = self.by_id.get(transactional_id)
        if known is None or known.producer_id != producer_id:
            raise RequestError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if known.epoch != epoch:
            raise RequestError(ErrorCode.PRODUCER_FENCED)
        return known

    def enlist(
        self, transactional_id: str, producer_id: int, epoch: int, partition: Partition, *, adds: bool
    ) -> None:
        """Check a write. If `adds`, the partition is added; else it must be in the transaction. Raises RequestError."""
        try:
            known = self.find(transactional_id, producer_id, epoch)
        except RequestError as refusal:
            if refusal.code == ErrorCode.PRODUCER_FENCED:
                raise RequestError(ErrorCode.INVALID_PRODUCER_EPOCH) from None
            raise
        if adds:
            self.add(known, [partition])
        elif known.state is not TransactionState.ONGOING or partition not in known.partitions:
            raise RequestError(ErrorCode.INVALID_TXN_STATE)

    def add(self, known: Transaction, partitions: list[Partition]) -> None:
        """Add partitions to the transaction. Begins it if necessary, even without partitions: for offsets."""
        if known.state is not TransactionState.ONGOING:
            known.state, known.began = TransactionState.ONGOING, self._clock.now()
            known.partitions.clear()
            known.timer = self._clock.after(known.timeout_ms, lambda: self._expire(known))
            self.changed.fire()
        if not known.partitions.issuperset(partitions):
            known.partitions.update(partitions)
            self.changed.fire()

    def restore(self, known: Transaction) -> None:
        """Restore a transaction from a data folder. If it is open, its timeout starts again."""
        self.by_id[known.transactional_id] = known
        if known.state is TransactionState.ONGOING:
            known.timer = self._clock.after(known.timeout_ms, lambda: self._expire(known))

    # --- ends

    def end(
        self, transactional_id: str, producer_id: int, epoch: int, is_commit: bool, bumps: bool
    ) -> Transaction:
        """Commit or abort. With `bumps`, the producer gets a new epoch. Raises RequestError."""
        known = self.by_id.get(transactional_id)
        wanted = TransactionState.COMMITTED if is_commit else TransactionState.ABORTED
        is_repeated = known is not None and bumps and epoch == known.epoch - 1 and known.state is wanted
        if known is not None and is_repeated and known.producer_id == producer_id:
            return known
        known = self.find(transactional_id, producer_id, epoch)
        if known.state is not TransactionState.ONGOING:
            may_abort_nothing = bumps and not is_commit
            if not may_abort_nothing and (known.state is not wanted or bumps):
                raise RequestError(ErrorCode.INVALID_TXN_STATE)
            if not may_abort_nothing:
                return known
        if bumps:
            self._bump(known)
        self._finish(known, is_commit)
        return known

    def _finish(self, known: Transaction, is_commit: bool) -> None:
        if known.timer is not None:
            known.timer.cancel()
        now = self._clock.now()
        for partition in known.partitions:
            if not partition.is_deleted and partition.log.producers.has_open(known.producer_id):
                marker = build_end_marker(
                    ControlType.COMMIT if is_commit else ControlType.ABORT,
                    producer_id=known.producer_id,
                    producer_epoch=known.epoch,
                    timestamp=now,
                )
                partition.log.append(marker, now=now, leader_epoch=partition.leader_epoch, from_client=False)
        known.partitions.clear()
        known.state = TransactionState.COMMITTED if is_commit else TransactionState.ABORTED
        for tell in self.ended:
            tell(known.producer_id, is_commit)
        self.changed.fire()

    def _expire(self, known: Transaction) -> None:
        if known.state is TransactionState.ONGOING:
            self._bump(known)
            self._finish(known, is_commit=False)
