"""All errors that kshare raises: a dozen classes, not one per broker error code."""

from __future__ import annotations

from typing import Any

__all__ = [
    "AcknowledgeError",
    "AuthenticationFailed",
    "BrokerError",
    "CaptureError",
    "ConfigError",
    "ConnectionLost",
    "ConsumerClosed",
    "CorruptBatchError",
    "DecodeError",
    "DeserializationFailed",
    "EncodeError",
    "FrameTooLarge",
    "KshareError",
    "NotAuthorized",
    "RequestTimedOut",
    "UnreadableAnswer",
    "Unsupported",
]


class KshareError(Exception):
    """The base class: `except KshareError` catches everything that this library raises on purpose."""


class EncodeError(KshareError, ValueError):
    """A message can't be written: a value doesn't fit its field, or the chosen version can't carry the field."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason


class DecodeError(KshareError, ValueError):
    """Bytes can't be decoded: says which field, at which offset, and why."""

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path or 'message'} at byte {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason


class CorruptBatchError(DecodeError):
    """A record batch is corrupt (checksum, framing, compression): names the partition offset where it starts."""

    def __init__(self, base_offset: int, offset: int, reason: str) -> None:
        super().__init__(f"batch at partition offset {base_offset}", offset, reason)
        self.base_offset = base_offset


class FrameTooLarge(DecodeError):
    """A frame is larger than the limit, which is `max_response_bytes` for responses."""

    def __init__(self, offset: int, size: int, limit: int) -> None:
        super().__init__("size", offset, f"a frame of {size} bytes announced, {limit} are allowed")
        self.size = size
        self.limit = limit


class UnreadableAnswer(DecodeError):
    """A broker's response can't be decoded: names the broker and the request, and says what is wrong."""

    def __init__(self, peer: str, api: str, version: int, error: DecodeError) -> None:
        super().__init__(error.path, error.offset, error.reason)
        self.args = (f"the response of {peer} to {api} v{version} can't be decoded: {error}",)
        self.peer = peer
        self.api = api
        self.version = version


class CaptureError(KshareError, ValueError):
    """A network capture is damaged or truncated, or isn't one: says at which byte of the file."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"byte {offset}: {reason}")
        self.offset = offset
        self.reason = reason


class ConfigError(KshareError, ValueError):
    """An option is unknown, missing, contradictory or out of range; the text says what to write instead."""


class ConnectionLost(KshareError):
    """A connection couldn't be made, or ended before the response. The request may have been carried out."""


class RequestTimedOut(KshareError):
    """No response within the deadline. The request may have been carried out."""


class AuthenticationFailed(KshareError):
    """TLS or SASL refused one of the two sides; retrying with the same credentials is pointless."""


class Unsupported(KshareError):
    """The broker doesn't support what is needed: too old, a feature disabled, no version in common. Says what to do."""


class BrokerError(KshareError):
    """A broker answered with an error code."""

    def __init__(self, code: int, what: str, message: str | None = None) -> None:
        from kshare.protocol.error_codes import ABOUT, RETRIABLE, error_name

        self.code = code
        self.name = error_name(code)
        self.is_retriable = code in RETRIABLE
        hint = message or ABOUT.get(code, "")
        super().__init__(f"{what}: {self.name}{f' ({hint})' if hint else ''}")


class NotAuthorized(BrokerError):
    """A broker denied access: the message names the missing right and the command that grants it."""

    def __init__(
        self, code: int, what: str, lack: str, command: str, operation: str, resource: str, name: str
    ) -> None:
        super().__init__(code, what, f"{lack}; grant it: {command}")
        self.lack = lack
        """Who may not do what, in words."""
        self.command = command
        """The command by which an administrator grants it."""
        self.operation = operation
        """As Kafka calls it: Read, Describe, AlterConfigs."""
        self.resource = resource
        """`topic`, `group` or `cluster`."""
        self.resource_name = name


class AcknowledgeError(KshareError):
    """Records can't be acknowledged any more: it was sent already, or their lock is lost."""


class ConsumerClosed(KshareError):
    """The consumer was closed, by any task: there is nothing to wait for any more."""


class DeserializationFailed(KshareError):
    """A deserializer raised. `record` has the bytes and can be acknowledged; the message only says where it is."""

    def __init__(self, record: Any, part: str, error: Exception) -> None:
        where = f"{record.topic}[{record.partition}]@{record.offset}"
        super().__init__(f"{where}: its {part} can't be deserialized ({type(error).__name__})")
        self.record = record
        """A ShareRecord."""
        self.part = part
        """`key` or `value`."""
