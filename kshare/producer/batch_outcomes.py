"""What a broker's error means for a batch: send it again, give it up, and whether it may have been written.

Pure. A leader checks a batch, appends it, and waits until the other replicas have it. If it stops leading meanwhile, or
the time is up, its response has an error though the batch is in the log. It often is the same error that it gives
before it appends: NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR. So an error proves that this
attempt wasn't appended only if it comes from the checks before, and from nowhere else: `_BEFORE_APPENDING`. After all
others, and those that we don't know, the batch is `OPEN`: it may be in the log.
"""

from __future__ import annotations

from enum import Enum, auto

from kshare.protocol.error_codes import RETRIABLE, ErrorCode


class BatchOutcome(Enum):
    """Each is about one attempt. `Backlog` remembers what earlier ones have left open."""

    WRITTEN = auto()
    DUPLICATE = auto()
    """The log has a batch with this sequence number: this one, if an earlier attempt may have been appended."""
    RETRY = auto()
    """Not written; it may be sent again."""
    RETRY_OPEN = auto()
    """It may have been written; it may be sent again with the same sequence number."""
    RENUMBER = auto()
    """Not written, and the broker doesn't accept its sequence number."""
    SPLIT = auto()
    """Not written, because the batch is too large."""
    REFUSED = auto()
    """Not written, and sending it again is of no use."""
    REFUSED_OPEN = auto()
    """It may have been written, and sending it again is of no use."""
    FENCED = auto()
    """Not written: a newer producer has the same transactional id."""


_UNNUMBERED = {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}
_FENCED = {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}
_TOO_LARGE = {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}
_BEFORE_APPENDING = (
    _UNNUMBERED
    | _FENCED
    | _TOO_LARGE
    | {
        # The request, and the rights of the client.
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        # The transaction.
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.TRANSACTION_ABORTABLE,
        # The replicas: with too few of them, nothing is appended.
        ErrorCode.NOT_ENOUGH_REPLICAS,
        # The batch.
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)


def outcome_of(code: int, *, is_transactional: bool) -> BatchOutcome:
    """The meaning of the error code of a partition in a ProduceResponse."""
    if code == ErrorCode.NONE:
        return BatchOutcome.WRITTEN
    if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return BatchOutcome.DUPLICATE
    if code not in _BEFORE_APPENDING:
        return BatchOutcome.RETRY_OPEN if code in RETRIABLE else BatchOutcome.REFUSED_OPEN
    if code in RETRIABLE:
        return BatchOutcome.RETRY
    if code in _FENCED and is_transactional:
        return BatchOutcome.FENCED
    if code in _UNNUMBERED or code in _FENCED:
        return BatchOutcome.RENUMBER
    return BatchOutcome.SPLIT if code in _TOO_LARGE else BatchOutcome.REFUSED


def is_fencing(code: int) -> bool:
    return code in _FENCED
