"""What a broker's error means for a batch: send it again, give it up, and whether it may have been written.

Pure. An error is `OPEN` if the batch may be in the log although the broker reports an error, or doesn't respond.
"""

from __future__ import annotations

from enum import Enum, auto

from kshare.protocol.error_codes import RETRIABLE, ErrorCode


class BatchVerdict(Enum):
    WRITTEN = auto()
    RETRY = auto()
    """Not written; it may be sent again."""
    RETRY_OPEN = auto()
    """It may have been written; it may be sent again with the same sequence number."""
    RENUMBER = auto()
    """Not in the log, and the broker doesn't accept its sequence number."""
    SPLIT = auto()
    """Not written, because the batch is too large."""
    REFUSED = auto()
    """Not written, and sending it again is of no use."""
    REFUSED_OPEN = auto()
    """It may have been written, and sending it again is of no use."""
    FENCED = auto()
    """Not written: a newer producer has the same transactional id."""


_MAY_BE_WRITTEN = {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
}
_UNNUMBERED = {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}
_FENCED = {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}
_TOO_LARGE = {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}


def verdict_on(code: int, *, is_transactional: bool) -> BatchVerdict:
    """The meaning of the error code of a partition in a ProduceResponse."""
    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return BatchVerdict.WRITTEN
    if code in _MAY_BE_WRITTEN:
        return BatchVerdict.RETRY_OPEN
    if code in RETRIABLE:
        return BatchVerdict.RETRY
    if code in _FENCED and is_transactional:
        return BatchVerdict.FENCED
    if code in _UNNUMBERED or code in _FENCED:
        return BatchVerdict.RENUMBER
    if code in _TOO_LARGE:
        return BatchVerdict.SPLIT
    return BatchVerdict.REFUSED_OPEN if code == ErrorCode.UNKNOWN_SERVER_ERROR else BatchVerdict.REFUSED


def is_fencing(code: int) -> bool:
    return code in _FENCED
