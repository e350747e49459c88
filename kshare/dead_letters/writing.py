"""Writes records of dead letters, and says what to do about those that the broker refuses. Others are written."""

from __future__ import annotations

from collections.abc import Sequence

from kshare.errors import BrokerError, KshareError
from kshare.producer.records import NewRecord
from kshare.producer.writer import RecordWriter
from kshare.protocol.error_codes import ErrorCode

_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_INVALID = (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP)
"""Brokers refuse the whole batch, because of one record."""
_MARGIN = 200
"""Bytes that a batch has besides its records, and that a dead letter grows by when it is moved once more."""

MOST_HEADERS = 100_000
"""Records with more headers aren't copied: there may be millions in a kilobyte, which take hundreds of megabytes."""


def too_many_headers(count: int) -> str:
    return f"it has {count:,} headers, and kshare copies at most {MOST_HEADERS:,}"


class RecordRefused(KshareError):
    """The broker doesn't accept this record. It isn't written."""

    def __init__(self, error: BrokerError, topic: str, record: NewRecord) -> None:
        self.needed_bytes = record.size + _MARGIN if error.code in _TOO_LARGE else 0
        """What max.message.bytes would have to be; 0 if it isn't too large."""
        advice = (
            f": raise max.message.bytes of topic {topic} to {self.needed_bytes}" if self.needed_bytes else ""
        )
        super().__init__(f"{error}{advice}")


async def write_each(
    writer: RecordWriter, topic: str, partition: int, records: Sequence[NewRecord]
) -> list[int | KshareError]:
    """Write these records. Returns the offset of each, or why it wasn't written."""
    outcomes = await writer.append_outcomes(topic, partition, records)
    for index, record in enumerate(records):
        outcome = outcomes[index]
        if isinstance(outcome, BrokerError) and outcome.code in _INVALID and len(records) > 1:
            (outcome,) = await writer.append_outcomes(topic, partition, [record])
        if isinstance(outcome, BrokerError) and outcome.code in (*_TOO_LARGE, *_INVALID):
            outcome = RecordRefused(outcome, topic, record)
        outcomes[index] = outcome
    return outcomes


def needed_bytes(error: KshareError) -> int:
    return error.needed_bytes if isinstance(error, RecordRefused) else 0
