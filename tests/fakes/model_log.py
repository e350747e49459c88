"""A model of a partition's log with the check of sequence numbers as Kafka makes it. Written apart from the broker's.

Kafka knows the last five batches of each producer id. A batch that is one of them isn't appended again; any other must
have the next number, or number 0 of a later epoch. From a producer id that has nothing in the log, any number is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.records import read_batches

_KNOWN = 5


class Refused(Exception):
    """Not appended."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


@dataclass(frozen=True)
class _Appended:
    offset: int
    producer_id: int
    epoch: int
    first: int
    values: tuple[bytes | None, ...]

    @property
    def end(self) -> int:
        return self.offset + len(self.values)


class ModelLog:
    """What followers don't have yet is lost if another broker becomes the leader."""

    def __init__(self) -> None:
        self.committed = 0
        """The end of what all replicas have, as far as a client was told."""
        self._batches: list[_Appended] = []

    @property
    def end(self) -> int:
        return self._batches[-1].end if self._batches else 0

    @property
    def values(self) -> list[bytes | None]:
        return [value for batch in self._batches for value in batch.values]

    @property
    def ends(self) -> list[int]:
        """Where a new leader's log may end."""
        return [end for end in (0, *(batch.end for batch in self._batches)) if end >= self.committed]

    def append(self, payload: bytes) -> tuple[int, bool]:
        """The offset, and whether it was there before. Raises Refused."""
        (batch,) = read_batches(payload)
        own = [earlier for earlier in self._batches if earlier.producer_id == batch.producer_id][-_KNOWN:]
        first = batch.base_sequence
        if own and batch.producer_epoch < own[-1].epoch:
            raise Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
        known = [earlier for earlier in own if earlier.epoch == batch.producer_epoch]
        for earlier in known:
            if (earlier.first, len(earlier.values)) == (first, batch.record_count):
                return earlier.offset, True
        expected = known[-1].first + len(known[-1].values) if known else 0
        if own and first != expected:
            raise Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        values = tuple(record.value for record in batch)
        appended = _Appended(self.end, batch.producer_id, batch.producer_epoch, first, values)
        self._batches.append(appended)
        return appended.offset, False

    def cut(self, end: int) -> None:
        """Another broker becomes the leader, whose log ends here."""
        self._batches = [batch for batch in self._batches if batch.end <= end]
