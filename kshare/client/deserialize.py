"""Keys and values as the user's own objects, and what becomes of records that can't be turned into any.

Decides which records of a batch reach the user; one that can't be read is settled, or raised, by itself and never takes
others of its batch along. Never logs what is in a record: that may be anybody's secret.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, Generic, Literal, Self, TypeVar

from kshare.client.record import ShareBatch, ShareRecord
from kshare.errors import AcknowledgeError, DeserializationFailed
from kshare.protocol.records import Record

log = logging.getLogger("kshare.client")

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

Deserializer = Callable[[bytes], Any]
OnPoison = Literal["raise", "reject", "release"]


class ReadRecord(ShareRecord, Generic[KeyT, ValueT]):
    """A record whose key and value have been through the user's functions. Where there was nothing stays None."""

    __slots__ = ("key", "value")

    key: KeyT  # type: ignore[assignment]
    value: ValueT  # type: ignore[assignment]


class Reader:
    """Turns batches into records by the user's functions; `on_poison` says what becomes of those that make one raise.

    raise: DeserializationFailed, with the record to be settled by hand; asked for the next, the batch goes on.
    reject, release: settled so, logged, and the next record comes.
    """

    def __init__(
        self, key: Deserializer | None, value: Deserializer | None, on_poison: OnPoison = "raise"
    ) -> None:
        self.key = key
        self.value = value
        self.on_poison = on_poison

    def records(self, batch: ShareBatch) -> Iterator[ReadRecord[Any, Any]]:
        """Those that are still ours when it is their turn."""
        return _Reading(self, batch)

    def read(self, batch: ShareBatch, record: Record) -> ReadRecord[Any, Any] | None:
        """None: it was settled, since it can't be read."""
        made: ReadRecord[Any, Any] = ReadRecord(batch, record)
        part = "key"
        try:
            made.key = _turned(self.key, record.key)
            part = "value"
            made.value = _turned(self.value, record.value)
        except Exception as error:
            self._poisoned(ShareRecord(batch, record), part, error)
            return None
        return made

    def _poisoned(self, record: ShareRecord, part: str, error: Exception) -> None:
        failure = DeserializationFailed(record, part, error)
        if self.on_poison == "raise":
            raise failure from error
        log.warning("%s: %s", failure, "rejected" if self.on_poison == "reject" else "released")
        try:
            record.reject() if self.on_poison == "reject" else record.release()
        except AcknowledgeError:
            log.info("%r: its lease was over already", record)


class _Reading:
    """A class and not a generator: those end at the first exception, and with them the rest of the batch."""

    def __init__(self, reader: Reader, batch: ShareBatch) -> None:
        self._reader = reader
        self._batch = batch
        self._raw = batch.raw()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ReadRecord[Any, Any]:
        for record in self._raw:
            if self._batch.lease.is_held(record.offset):
                made = self._reader.read(self._batch, record)
                if made is not None:
                    return made
        raise StopIteration


def _turned(function: Deserializer | None, data: bytes | None) -> Any:
    return data if function is None or data is None else function(data)
