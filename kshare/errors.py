"""All errors of clients: a class for what a program may want to handle, not one per broker error code.

Those that most programs need are in `kshare`, too. An error that only one module raises is in that module: in
`kshare.capture`, `kshare.schema_registry`, `kshare.spark`, `kshare.worker`.
"""

from __future__ import annotations

from copy import copy
from typing import Any, TypeVar

from kshare.log_text import escaped

ErrorT = TypeVar("ErrorT", bound=BaseException)

_MAX_MESSAGE = 2000

# An exception refers to all frames that it has passed. If one of them has a variable that refers to the exception, only
# the garbage collector frees these frames, and those of their callers. A loop that user code has left there ends when
# its iterator is freed, and has a record until then. So what raises such an exception to user code deletes the
# variable.

__all__ = [
    "AcknowledgeError",
    "AuthenticationFailed",
    "BrokerError",
    "ClaimLost",
    "CommitUnknown",
    "ConfigError",
    "ConnectionLost",
    "ConsumerClosed",
    "CorruptBatchError",
    "DecodeError",
    "DeliveryFailed",
    "DeserializationFailed",
    "EncodeError",
    "FrameTooLarge",
    "InProgress",
    "IncompleteResponse",
    "KshareError",
    "NotAuthorized",
    "OversizedBatchError",
    "ProducerFenced",
    "RequestTimedOut",
    "StoreFailed",
    "UnreadableResponse",
    "Unsupported",
]


def restored(kind: type[ErrorT], message: tuple[Any, ...]) -> ErrorT:
    """An exception with this message and no other fields."""
    return kind.__new__(kind, *message)


def own_copy(error: ErrorT) -> ErrorT:
    """A copy to raise, of an error that is kept and raised again and again.

    Each raise adds to the traceback of an exception, and keeps the frames of all callers alive.
    """
    try:
        own = copy(error)
    except Exception:  # a class of user code or of a library, with other arguments
        return error.with_traceback(None)
    own.__cause__ = error.__cause__
    return own


class Copyable(Exception):
    """Can be copied and pickled, whatever arguments its class takes.

    Python would call the class with the message. That fails if it takes other arguments, and an exception that can be
    pickled but not unpickled breaks a process pool.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return restored, (type(self), self.args), self.__dict__


class KshareError(Copyable):
    """The base class of all errors that kshare raises on purpose."""

    def __str__(self) -> str:
        """In one line: it may contain names and messages that others chose."""
        return escaped(super().__str__())


# --- configuration


class ConfigError(KshareError, ValueError):
    """Options or arguments are unknown, missing, contradictory or out of range; the message says what to use.

    If several are, it lists them, each on a line of its own.
    """

    def __init__(self, *mistakes: str) -> None:
        super().__init__(*map(_shortened, mistakes))

    @property
    def mistakes(self) -> tuple[str, ...]:
        """What is wrong, each in a sentence."""
        return self.args

    @property
    def lines(self) -> list[str]:
        """Those of the message: one if there is one mistake."""
        lines = [escaped(mistake) for mistake in self.mistakes]
        if len(lines) == 1:
            return lines
        return [f"{len(lines)} mistakes in the configuration:", *(f"- {line}" for line in lines)]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def _shortened(message: str) -> str:
    """A value that was given by mistake, such as the contents of a file, would hide what the message says."""
    if len(message) <= _MAX_MESSAGE:
        return message
    return f"{message[: _MAX_MESSAGE // 2]}…{message[-_MAX_MESSAGE // 2 :]}"


class Unsupported(KshareError):
    """The broker is too old, a feature is disabled, or there is no common version. The message says what to do."""


# --- connections


class ConnectionLost(KshareError):
    """A connection couldn't be made, or broke before the response arrived. The request may have been executed."""


class RequestTimedOut(KshareError):
    """No response arrived in time. The request may have been executed."""


# --- responses of brokers


class BrokerError(KshareError):
    """A broker responded with an error code."""

    def __init__(self, code: int, what: str, message: str | None = None) -> None:
        from kshare.protocol.error_codes import ABOUT, RETRIABLE, error_name

        self.code = code
        self.name = error_name(code)
        self.is_retriable = code in RETRIABLE
        hint = message or ABOUT.get(code, "")
        super().__init__(f"{what}: {self.name}{f' ({hint})' if hint else ''}")


class IncompleteResponse(KshareError):
    """A broker's response leaves out what was requested: names the request, and what is missing."""


# --- authorization


class AuthenticationFailed(KshareError):
    """TLS or SASL authentication failed. Retrying with the same credentials is of no use."""


class NotAuthorized(BrokerError):
    """You lack a permission. The message names it, with the command that grants it."""

    def __init__(
        self, code: int, what: str, lack: str, command: str, operation: str, resource: str, name: str
    ) -> None:
        super().__init__(code, what, f"{lack}; grant it: {command}")
        self.lack = lack
        """Which permission is missing, as a sentence."""
        self.command = command
        """The `kafka-acls` command that grants it."""
        self.operation = operation
        """The ACL operation, by Kafka's name: Read, Describe, AlterConfigs."""
        self.resource = resource
        """`topic`, `group` or `cluster`."""
        self.resource_name = name


# --- bytes


class EncodeError(KshareError, ValueError):
    """A message can't be written: a value doesn't fit its field, or the chosen version can't carry the field."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason


class DecodeError(KshareError, ValueError):
    """Bytes can't be decoded: names the field, its offset and the reason."""

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path or 'message'} at byte {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason


class UnreadableResponse(DecodeError):
    """A broker's response can't be decoded: names the broker, the request and the problem."""

    def __init__(self, peer: str, api: str, version: int, error: DecodeError) -> None:
        super().__init__(error.path, error.offset, error.reason)
        self.args = (f"the response of {peer} to {api} v{version} can't be decoded: {error}",)
        self.peer = peer
        self.api = api
        self.version = version


class FrameTooLarge(DecodeError):
    """The size of a frame is above the limit. For responses, the limit is `max_response_bytes`."""

    def __init__(self, offset: int, size: int, limit: int) -> None:
        super().__init__("size", offset, f"a frame of {size} bytes announced, {limit} are allowed")
        self.size = size
        self.limit = limit


class CorruptBatchError(DecodeError):
    """A record batch is corrupt (checksum, framing or compression): names the offset at which the batch starts."""

    def __init__(self, base_offset: int, offset: int, reason: str) -> None:
        super().__init__(f"batch at partition offset {base_offset}", offset, reason)
        self.base_offset = base_offset


class OversizedBatchError(CorruptBatchError):
    """A record batch would decompress to more than the limit. Its checksum is correct, so it was written that way."""


# --- records of share groups


class AcknowledgeError(KshareError):
    """Records can no longer be acknowledged: their acknowledgement was already sent, or their lock was lost."""


class ConsumerClosed(KshareError):
    """The consumer was closed, so there are no more records."""


class DeserializationFailed(KshareError):
    """A deserializer raised. `record` has the original bytes, and can be acknowledged.

    The message says where the record is, but nothing of its contents.
    """

    def __init__(self, record: Any, part: str, error: Exception) -> None:
        where = f"{record.topic}[{record.partition}]@{record.offset}"
        super().__init__(f"{where}: its {part} can't be deserialized ({type(error).__name__})")
        self.record = record
        """The ShareRecord, with its key and value as bytes. None in a copy from `pickle` or `copy.deepcopy`."""
        self.part = part
        """The part that couldn't be deserialized: `key` or `value`."""

    def __reduce__(self) -> tuple[Any, ...]:
        make, what, fields = super().__reduce__()
        return make, what, {**fields, "record": None}

    def __copy__(self) -> DeserializationFailed:
        own = restored(type(self), self.args)
        own.__dict__.update(self.__dict__)
        return own


# --- writing records


class DeliveryFailed(KshareError):
    """A record wasn't confirmed. `is_open` says whether it may have been written all the same."""

    def __init__(self, topic: str, partition: int, reason: str, *, is_open: bool) -> None:
        outcome = (
            "may have been written, and is not sent again: check the topic before you send it again"
            if is_open
            else "was not written"
        )
        super().__init__(f"{topic}[{partition}]: the record {outcome} ({reason})")
        self.topic = topic
        self.partition = partition
        self.is_open = is_open


class ProducerFenced(BrokerError):
    """A newer producer has the same transactional id. This one can no longer write: close it."""


class CommitUnknown(ConnectionLost, RequestTimedOut):
    """It isn't known whether a transaction was committed: read its records to find out, before you write them again."""


# --- idempotency


class InProgress(KshareError):
    """Another call with the same idempotency key is running, or its process died. Don't accept the record."""

    def __init__(self, function: str, retry_after: float) -> None:
        super().__init__(
            f"{function}: another call with the same key is in progress. It ends, or loses its claim, within "
            f"{retry_after:.1f} s: retry then, or pass wait= to wait for it."
        )
        self.retry_after = retry_after
        """Seconds until the other call's claim expires at the latest."""


class ClaimLost(KshareError):
    """A call outlived its claim, and another call with the same key took over. Only the other's result counts."""

    def __init__(self, function: str, in_progress_timeout: float) -> None:
        super().__init__(
            f"{function}: the call took longer than in_progress_timeout ({in_progress_timeout:g} s), and another call "
            "with the same key took over. Its result counts, this one isn't stored. Raise in_progress_timeout."
        )


class StoreFailed(KshareError):
    """A store of idempotency keys failed. Don't accept the record.

    The message leaves out what the database said, which may contain data; the exception is chained.
    """

    def __init__(self, message: str, *, is_open: bool = True) -> None:
        super().__init__(message)
        self.is_open = is_open
        """Whether the store may have done what it was asked to. If not, a claim that failed needn't be removed."""
