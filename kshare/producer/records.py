"""What users write and get back: a record, the handle of one that is being sent, and where it was written."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any, NamedTuple

import anyio

from kshare.errors import ConfigError, KshareError
from kshare.producer.failures import BatchFailure
from kshare.protocol.record import Record

Headers = Sequence[tuple[str, bytes | None]]
Contents = tuple[bytes | None, bytes | None, Headers, int]
"""Value, key, headers and timestamp: a record that was checked."""

_OVERHEAD = 32
"""The most that lengths, offset and timestamp of a record take in a batch."""
_HEADER_OVERHEAD = 10
RECORD_MEMORY = 256
"""What Python takes for a record and its handle in the buffer, besides its contents: the objects and their places."""
HEADER_MEMORY = 200
BLOCK_RECORD_MEMORY = 128
"""Of a record in a block."""
_HEADERS_EXPECTED = 'headers must be pairs of a name and bytes, as in [("trace", b"a1")]'


class NewRecord(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int = 0
    """Milliseconds since 1970."""

    def checked(self) -> NewRecord:
        """The record with contents that the caller can no longer change. Raises ConfigError if it can't be written.

        Bytes aren't copied. Of a memoryview, all bytes are taken, whatever its items are.
        """
        value, key, headers, timestamp = self
        if type(timestamp) is not int or not -1 <= timestamp < 2**63:
            raise ConfigError(f"timestamp must be whole milliseconds since 1970, not {timestamp!r:.80}")
        value, key = _own("value", value), _own("key", key)
        return NewRecord(
            value, key, () if type(headers) is tuple and not headers else _pairs(headers), timestamp
        )

    @property
    def size(self) -> int:
        """The approximate size in a batch, never less than the actual one."""
        headers = sum(
            4 * len(name) + len(content or b"") + _HEADER_OVERHEAD for name, content in self.headers
        )
        return len(self.value or b"") + len(self.key or b"") + headers + _OVERHEAD


def copied_record(record: Record) -> NewRecord:
    """A record that was read, to be written again. Its contents are copied, because they may be parts of a response."""
    return NewRecord(
        None if record.value is None else bytes(record.value),
        None if record.key is None else bytes(record.key),
        [(name, None if value is None else bytes(value)) for name, value in record.headers],
        record.timestamp,
    )


def _own(name: str, content: object) -> bytes | None:
    if content is None or type(content) is bytes:
        return content
    if not isinstance(content, bytes | bytearray | memoryview):
        raise ConfigError(f"{name} must be bytes or None, not {type(content).__name__}: encode it")
    try:
        return bytes(content)
    except ValueError as error:
        raise ConfigError(f"{name} can't be read: {error}") from error


def _pairs(headers: object) -> Headers:
    if not isinstance(headers, Iterable):
        raise ConfigError(f"{_HEADERS_EXPECTED}, not {type(headers).__name__}")
    return [_pair(pair) for pair in headers]


def _pair(pair: object) -> tuple[str, bytes | None]:
    if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str)):
        raise ConfigError(f"{_HEADERS_EXPECTED}, not of {pair!r:.80}")
    name, content = pair
    if any("\ud800" <= letter <= "\udfff" for letter in name):
        raise ConfigError(f"header name {name!a:.80} can't be encoded as UTF-8")
    return name, _own(f"header {name:.80}", content)


class Produced(NamedTuple):
    """Where a record was written. All in-sync replicas have it."""

    topic: str
    partition: int
    offset: int
    """-1 if the broker only said that it had the record already, after an earlier response was lost. Current releases
    say the offset, too."""
    timestamp: int
    """Milliseconds since 1970: the record's own, or the broker's if the topic is configured so."""


Produced.__module__ = "kshare"  # its body may have nothing but fields


class PendingSend:
    """A record on its way. `await` it for the result, any number of times; or leave that to `flush`."""

    __module__ = "kshare"

    __slots__ = ("_event", "_failure", "_is_seen", "_produced", "record")

    def __init__(self, record: NewRecord) -> None:
        self.record = record
        self._is_seen = False
        self._event: anyio.Event | None = None
        self._produced: Produced | None = None
        self._failure: BatchFailure | None = None

    @property
    def is_done(self) -> bool:
        return self._produced is not None or self._failure is not None

    @property
    def is_seen(self) -> bool:
        """Whether a caller has got the result, or will get it. Then `flush` needn't raise the error."""
        return self._is_seen

    @is_seen.setter
    def is_seen(self, is_seen: bool) -> None:
        if self._failure is not None and is_seen and not self._is_seen:
            self._failure.add_unseen(-self.record_count)
        self._is_seen = is_seen

    @property
    def record_count(self) -> int:
        return 1

    def result(self) -> Produced:
        """The result of a record that is done; raises the error if it wasn't written."""
        if self._failure is not None:
            self.is_seen = True
            raise self._failure.make_error()
        if self._produced is None:
            raise KshareError("the record is still in flight: await it")
        return self._produced

    @property
    def problem(self) -> str:
        """Why it wasn't written, for logs."""
        return str(self._failure.make_error()) if self._failure is not None else ""

    def succeed(self, produced: Produced) -> None:
        self._produced = produced
        self._wake()

    def fail(self, failure: BatchFailure) -> None:
        self._failure = failure
        if not self._is_seen:
            failure.add_unseen(self.record_count)
        self._wake()

    def __await__(self) -> Generator[Any, Any, Produced]:
        return self._result().__await__()

    async def _result(self) -> Produced:
        await self.wait()
        return self.result()

    async def wait(self) -> None:
        """Wait until the outcome is known."""
        if not self.is_done:
            if self._event is None:
                self._event = anyio.Event()
            await self._event.wait()

    def _wake(self) -> None:
        if self._event is not None:
            self._event.set()


class PendingBlock(PendingSend):
    """Many records for one partition with one outcome, which is less work than a handle for each.

    The result is where the first of them was written. An error is that of the first that wasn't.
    """

    __slots__ = ("_parts", "_written", "records")

    def __init__(self, records: Sequence[Contents]) -> None:
        super().__init__(NewRecord(*records[0]))
        self.records = records
        self._parts = 1
        self._written: Produced | None = None

    @property
    def record_count(self) -> int:
        return len(self.records)

    def on_split(self) -> None:
        """A batch of them is sent as two."""
        self._parts += 1

    def succeed(self, produced: Produced) -> None:
        """A batch of them was written. Batches are written in order."""
        self._parts -= 1
        self._written = self._written or produced
        if self._parts == 0 and self._failure is None:
            super().succeed(self._written)

    def fail(self, failure: BatchFailure) -> None:
        """A batch of them wasn't written."""
        self._parts -= 1
        if self._failure is None:
            super().fail(failure)
