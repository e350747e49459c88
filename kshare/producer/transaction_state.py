"""What a producer knows of its transactions: the epoch, the open transaction, and what may still happen to the last.

Pure.

    NEW ──identified──▶ READY ──begin──▶ OPEN ──close──▶ CLOSING ──ending──▶ ENDING ──ended──▶ READY
                                                                                └─────▶ UNKNOWN ──identified──▶ READY

In `CLOSING`, what was written before is confirmed, and nothing is added. In `ENDING`, EndTxn is sent. A transaction
that was never sent to the coordinator ends without that.

`UNKNOWN`: a request of this epoch got no response, so it may be executed later. A late EndTxn would commit the next
transaction, and a late AddPartitionsToTxn would begin one. So first of all, the producer needs a new epoch, in which
the coordinator refuses such requests. That holds even if the same request got a response when it was repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from kshare.producer.backlog import ProducerIdentity
from kshare.protocol.error_codes import ErrorCode

Place = tuple[str, int]


class Phase(Enum):
    NEW = auto()
    READY = auto()
    OPEN = auto()
    CLOSING = auto()
    ENDING = auto()
    UNKNOWN = auto()


_NOT_EXECUTED = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.UNSUPPORTED_VERSION,
}
"""Coordinators find these before they write to their log. NOT_COORDINATOR and COORDINATOR_NOT_AVAILABLE aren't among
them: they also follow a write that failed, and that may be in the log nevertheless."""


@dataclass(slots=True, eq=False)
class Transaction:
    """One transaction. Requests are tied to it, so that late ones don't change the next."""

    identity: ProducerIdentity
    added: set[Place] = field(default_factory=set)
    """Its partitions, as confirmed by the coordinator."""
    is_known: bool = False
    """A request to add partitions was sent, so the coordinator may have begun it."""
    without_response: int = 0
    """How many requests were sent whose response is missing."""
    may_be_ended: bool = False
    """A request to end it was sent, and may have been executed."""

    def on_sent(self) -> None:
        self.without_response += 1

    def on_response(self) -> None:
        self.without_response -= 1


class TransactionState:
    """The transactions of one producer, one after another."""

    def __init__(self) -> None:
        self.phase = Phase.NEW
        self.identity: ProducerIdentity | None = None
        self.current: Transaction | None = None
        """From its begin to its end."""
        self.may_be_ongoing = False
        """The coordinator may have an unfinished transaction of this epoch. It has to be ended before the next epoch is
        requested: to end it, InitProducerId would use up an epoch, and then fence this producer itself."""

    @property
    def needs_identity(self) -> bool:
        return self.phase in (Phase.NEW, Phase.UNKNOWN)

    # --- epochs

    def on_identifying(self) -> None:
        """InitProducerId is sent. If it is executed, nothing of the old epoch can be ended any more."""
        self.may_be_ongoing = False
        self.phase = Phase.UNKNOWN

    def on_identified(self, identity: ProducerIdentity) -> None:
        self.identity = identity
        self.phase = Phase.READY

    def on_nothing_ongoing(self) -> None:
        """The coordinator has said that the last transaction of this epoch is over."""
        self.may_be_ongoing = False

    # --- transactions

    def begin(self) -> Transaction:
        assert self.phase is Phase.READY, self.phase
        assert self.identity is not None, "ready"
        self.phase = Phase.OPEN
        self.current = Transaction(self.identity)
        return self.current

    def is_open(self, transaction: Transaction | None) -> bool:
        """Whether this transaction's records may be sent now."""
        return (
            transaction is not None
            and transaction is self.current
            and self.phase in (Phase.OPEN, Phase.CLOSING)
        )

    def on_adding(self, transaction: Transaction) -> None:
        transaction.is_known = True
        self.may_be_ongoing = True

    def close(self) -> None:
        """Nothing is added to the transaction any more."""
        self.phase = Phase.CLOSING

    def begin_end(self) -> Transaction:
        """The end of the transaction is sent now, or isn't necessary."""
        assert self.current is not None, "begun before"
        self.phase = Phase.ENDING
        return self.current

    def on_ending(self, transaction: Transaction) -> bool:
        """EndTxn is sent. Returns whether an earlier one may have been executed."""
        was_open, transaction.may_be_ended = transaction.may_be_ended, True
        return was_open

    def on_end_refused(self, transaction: Transaction, code: int, *, was_open: bool) -> None:
        """The response to an EndTxn is an error. `was_open` is what `on_ending` returned for it."""
        if not was_open and code in _NOT_EXECUTED:
            transaction.may_be_ended = False

    def ended(self, *, is_over: bool, needs_epoch: bool = False) -> None:
        """No further requests are sent for the transaction. `is_over`: the coordinator has nothing of it to end."""
        transaction, self.current = self.current, None
        is_settled = is_over and transaction is not None and not transaction.without_response
        if is_settled:
            self.may_be_ongoing = False
        self.phase = Phase.READY if is_settled and not needs_epoch else Phase.UNKNOWN
