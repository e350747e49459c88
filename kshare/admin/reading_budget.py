"""How many decompressed bytes one request of a person may take, and what is kept of the records that it found.

A record keeps the bytes of its whole batch alive. `KeptRecord` is a copy of what is shown, cut if it is long.
"""

from __future__ import annotations

from typing import NamedTuple

from kshare.protocol.decompression_budget import DecompressionBudget
from kshare.protocol.record import Headers, Record

_EACH = 16 << 20
"""For one batch. A producer's batches are usually far below a megabyte, before they are compressed."""
_TOTAL = 32 << 20
LONGEST_VALUE = 1 << 20
"""More of a key, a value or a header isn't kept to be shown: Kafka's default limit for a whole record."""
_MOST_HEADERS = 1_000
"""Of one record. Producers add a few; a batch of a kilobyte may have five million."""
LETTER_PREFIX = "__dlq.errors."
"""Dead-letter headers, which come last if kshare or another program wrote them, are found behind so many others."""
_HEADER_MEMORY = 200


def reading_budget() -> DecompressionBudget:
    """For one page, one reading of the cluster, or one command that keeps what it reads."""
    return DecompressionBudget(_TOTAL, _EACH)


def counting_budget() -> DecompressionBudget:
    """For those who keep nothing of a batch, however many they read."""
    return DecompressionBudget(1 << 62, _EACH)


class KeptRecord(NamedTuple):
    """A record without its batch."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    header_count: int
    """Of all headers, of which `headers` may be a part."""
    key_size: int
    """Of the whole key, of which `key` may be the beginning."""
    value_size: int

    @property
    def kept_bytes(self) -> int:
        headers = sum(len(name) + len(value or b"") + _HEADER_MEMORY for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


def bounded_headers(record: Record | KeptRecord) -> Headers:
    """Not all of them if there are very many, but those of a dead letter."""
    if isinstance(record, KeptRecord):
        return record.headers
    return record.some_headers(_MOST_HEADERS, LETTER_PREFIX.encode())


def kept(record: Record) -> KeptRecord:
    key, value = record.key, record.value
    headers = tuple((name, _cut(each)) for name, each in bounded_headers(record))
    return KeptRecord(
        record.offset,
        record.timestamp,
        _cut(key),
        _cut(value),
        headers,
        record.header_count,
        len(key or b""),
        len(value or b""),
    )


def _cut(data: bytes | None) -> bytes | None:
    return None if data is None else bytes(data[:LONGEST_VALUE])
