"""Deserializes keys and values, and handles records for which that fails.

Decides which records of a batch reach the user. A record that can't be deserialized is settled or raised individually,
without affecting others of its batch. Never logs the contents of a record, which may be confidential.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from kshare.client import record as records
from kshare.client.deserializer_calls import DeserializerCall, DeserializerContext, RecordPart
from kshare.client.record import ShareRecord
from kshare.engine.events import Poisoned
from kshare.engine.reporter import Reporter
from kshare.errors import AcknowledgeError, ConfigError, DecodeError, DeserializationFailed, KshareError
from kshare.fast.shown_names import show_as
from kshare.protocol.records import Record

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    RecordT_co = TypeVarWithDefault("RecordT_co", bound=ShareRecord, default=ShareRecord, covariant=True)
else:
    RecordT_co = TypeVar("RecordT_co", covariant=True)
"""The type of a consumer's records: ShareRecord, or with deserializers a ReadRecord."""

OnPoison = Literal["raise", "reject", "release"]


class ReadRecord(ShareRecord, Generic[KeyT, ValueT]):
    """A record whose key or value was deserialized. Null keys and values stay None."""

    __slots__ = ("key", "value")

    key: KeyT  # type: ignore[assignment]
    value: ValueT  # type: ignore[assignment]


show_as(ReadRecord, b"kshare.ReadRecord")


if TYPE_CHECKING:

    class ShareBatch(records.ShareBatch, Generic[RecordT_co]):
        """With its record type, for type checkers only: compiled classes can't be generic."""

        def __iter__(self) -> Iterator[RecordT_co]:  # type: ignore[override]
            ...

else:
    ShareBatch = records.ShareBatch


class Reader:
    """Deserializes keys and values with the user's functions. `on_poison` tells what to do if one of them raises.

    raise: raise DeserializationFailed, which has the record, for the user to settle. The batch can be continued.
    reject, release: settle the record that way, count it in the log, and continue with the next record.

    A KshareError that isn't a DecodeError is always raised: it isn't about the record, and the next records would have
    the same fate.
    """

    kind: type[ShareRecord] = ReadRecord

    def __init__(
        self,
        key: Callable[..., Any] | None,
        value: Callable[..., Any] | None,
        on_poison: OnPoison = "raise",
        reporter: Reporter | None = None,
    ) -> None:
        self.key = None if key is None else DeserializerCall.of(key, "key")
        self.value = None if value is None else DeserializerCall.of(value, "value")
        self.on_poison = on_poison
        self._reporter = reporter or Reporter()

    @property
    def is_async(self) -> bool:
        """Whether a deserializer has to be awaited. Then batches are prepared before they are handed out."""
        return any(call is not None and call.is_async for call in (self.key, self.value))

    def read(self, record: ShareRecord) -> bool:
        """Set key and value. Returns False if that failed and the record was settled."""
        mutable = undeserialized_parts(record)
        key, value = mutable.key, mutable.value
        part: RecordPart = "key"
        try:
            if self.key is not None and key is not None:
                key = deserialized(record, self.key, key)
            part = "value"
            if self.value is not None and value is not None:
                value = deserialized(record, self.value, value)
        except Exception as error:
            self.report_failure(record, part, error)
            return False
        mutable.key, mutable.value = key, value
        return True

    def report_failure(self, record: ShareRecord, part: RecordPart, error: Exception) -> None:
        """Settle the record as `on_poison` says, or raise DeserializationFailed."""
        # No variable has the exception that is raised: see `kshare.errors`.
        if isinstance(error, KshareError) and not isinstance(error, DecodeError):
            raise DeserializationFailed(record, part, error) from error
        self._reporter.report(Poisoned(record.topic, record.partition, record.offset, part))
        if self.on_poison == "raise":
            raise DeserializationFailed(record, part, error) from error
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


_key_of = Record.key.__get__
_value_of = Record.value.__get__


def undeserialized_parts(record: ShareRecord) -> ReadRecord[Any, Any]:
    """The record with its key and value as bytes, to be replaced."""
    mutable = cast("ReadRecord[Any, Any]", record)
    mutable.key, mutable.value = _key_of(record), _value_of(record)
    return mutable


def deserialized(record: ShareRecord, call: DeserializerCall, data: bytes) -> Any:
    """Convert the bytes with a deserializer that isn't async."""
    found = call.function(data, context_of(record, call.part)) if call.takes_context else call.function(data)
    if type(found) is CoroutineType:
        found.close()
        raise ConfigError(
            f"{call.part}_deserializer returned a coroutine, but isn't an async function, so it is never awaited: "
            "wrap it in an `async def` that awaits it"
        )
    return found


def context_of(record: ShareRecord, part: RecordPart) -> DeserializerContext:
    return DeserializerContext(record.topic, part, record.headers, record.partition, record.offset)
