"""Deserializes keys and values, and handles records for which that fails.

Decides which records of a batch reach the user. A record that can't be deserialized is settled or raised individually,
without affecting others of its batch. Never logs the contents of a record, which may be confidential.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from kshare.client.record import ShareBatch, ShareRecord
from kshare.engine.events import Poisoned
from kshare.engine.reporter import Reporter
from kshare.errors import AcknowledgeError, DeserializationFailed
from kshare.protocol.records import Record

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    RecordT_co = TypeVarWithDefault("RecordT_co", bound=ShareRecord, default=ShareRecord, covariant=True)
else:
    RecordT_co = TypeVar("RecordT_co", covariant=True)
"""The type of a consumer's records: ShareRecord, or with deserializers a ReadRecord."""

Deserializer = Callable[[bytes], Any]
OnPoison = Literal["raise", "reject", "release"]


class ReadRecord(ShareRecord, Generic[KeyT, ValueT]):
    """A record whose key or value was deserialized. Null keys and values stay None."""

    __slots__ = ("key", "value")

    key: KeyT  # type: ignore[assignment]
    value: ValueT  # type: ignore[assignment]


if TYPE_CHECKING:

    class TypedBatch(ShareBatch, Generic[RecordT_co]):
        """A ShareBatch with its record type, for type checkers only: compiled classes can't be generic."""

        def __iter__(self) -> Iterator[RecordT_co]:  # type: ignore[override]
            ...

else:
    TypedBatch = ShareBatch


class Reader:
    """Deserializes keys and values with the user's functions. `on_poison` tells what to do if one of them raises.

    raise: raise DeserializationFailed, which has the record, for the user to settle. The batch can be continued.
    reject, release: settle the record that way, count it in the log, and continue with the next record.
    """

    kind: type[ShareRecord] = ReadRecord

    def __init__(
        self,
        key: Deserializer | None,
        value: Deserializer | None,
        on_poison: OnPoison = "raise",
        reporter: Reporter | None = None,
    ) -> None:
        self.key = key
        self.value = value
        self.on_poison = on_poison
        self._reporter = reporter or Reporter()

    def read(self, record: ShareRecord) -> bool:
        """Set key and value. Returns False if that failed and the record was settled."""
        mutable = cast("ReadRecord[Any, Any]", record)
        mutable.key, mutable.value = Record.key.__get__(record), Record.value.__get__(record)
        part = "key"
        try:
            key = _deserialize(self.key, mutable.key)
            part = "value"
            value = _deserialize(self.value, mutable.value)
        except Exception as error:
            self._report_failure(mutable, part, error)
            return False
        mutable.key, mutable.value = key, value
        return True

    def _report_failure(self, record: ShareRecord, part: str, error: Exception) -> None:
        failure = DeserializationFailed(record, part, error)
        self._reporter.report(Poisoned(record.topic, record.partition, record.offset, part))
        if self.on_poison == "raise":
            raise failure from error
        outcome = "rejected" if self.on_poison == "reject" else "released"
        cause = f"{part} can't be deserialized ({type(error).__name__}); {outcome}"
        self._log(logging.WARNING, cause, record)
        try:
            record.reject() if self.on_poison == "reject" else record.release()
        except AcknowledgeError:
            self._log(logging.INFO, f"can't be {outcome}: their lock was lost", record)

    def _log(self, level: int, cause: str, record: ShareRecord) -> None:
        offset = record.offset
        self._reporter.log.records(level, cause, record.topic, record.partition, 1, offset, offset)


def _deserialize(function: Deserializer | None, data: bytes | None) -> Any:
    return data if function is None or data is None else function(data)
