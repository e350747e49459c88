"""What every generated message can do: be encoded for a version, be decoded from one, and say where it broke."""

from __future__ import annotations

import struct
from typing import Any, ClassVar, Generic, Self, TypeVar

from kshare.errors import DecodeError, EncodeError
from kshare.protocol.primitives import Buffer

_BROKEN = (IndexError, ValueError, struct.error)
_UNWRITABLE = (AttributeError, IndexError, TypeError, ValueError, OverflowError, struct.error)


class Message:
    """The root of requests, responses, headers and state records; the generated class adds fields and codecs."""

    __slots__ = ()

    NAME: ClassVar[str]
    API_KEY: ClassVar[int]
    """Which API this belongs to; for state records the record type; -1 where there is none."""
    VERSIONS: ClassVar[tuple[int, int]]
    """First and last version."""
    FLEXIBLE: ClassVar[tuple[int, int]]
    """First and last version with compact lengths and tagged fields; (1, 0) for none."""
    FIELDS: ClassVar[tuple[tuple[Any, ...], ...]]

    def encode_into(self, out: bytearray, version: int) -> None:
        raise AssertionError("generated")

    @classmethod
    def decode_from(cls, buf: Buffer, pos: int, version: int) -> tuple[Self, int]:
        raise AssertionError("generated")

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        return cls.FLEXIBLE[0] <= version <= cls.FLEXIBLE[1]

    def encode(self, version: int) -> bytes:
        """The bytes of this message; EncodeError when a value doesn't fit or the version can't carry a field."""
        out = bytearray()
        self.append_to(out, version)
        return bytes(out)

    def append_to(self, out: bytearray, version: int) -> None:
        """Like `encode`, behind what `out` holds already. After an error `out` is as it was."""
        check = _version_problem(type(self), version)
        if check:
            raise EncodeError("", check)
        start = len(out)
        try:
            self.encode_into(out, version)
        except _UNWRITABLE as error:
            from kshare.protocol.diagnose import explain_encode

            del out[start:]
            raise explain_encode(self, version, error) from None

    @classmethod
    def decode(cls, data: Buffer, version: int) -> Self:
        """The message that `data` holds, all of it. Fields of type records stay views into `data`."""
        message, end = cls.decode_prefix(data, version)
        if end != len(data):
            raise DecodeError(cls.NAME, end, f"{len(data) - end} bytes are left over behind the message")
        return message

    @classmethod
    def decode_prefix(cls, data: Buffer, version: int, start: int = 0) -> tuple[Self, int]:
        """The message that begins at `start`, and where it ends."""
        check = _version_problem(cls, version)
        if check:
            raise DecodeError("", start, check)
        try:
            return cls.decode_from(data, start, version)
        except _BROKEN as error:
            from kshare.protocol.diagnose import explain_decode

            raise explain_decode(cls, data, start, version, error) from None


def _version_problem(cls: type[Message], version: int) -> str | None:
    first, last = cls.VERSIONS
    if first <= version <= last:
        return None
    return f"{cls.NAME} has no version {version}: it has {first} to {last}"


ResponseT = TypeVar("ResponseT", bound=Message)


class Request(Message, Generic[ResponseT]):
    """A request; knows the class of its answer."""

    __slots__ = ()

    RESPONSE: ClassVar[type[Message]]


class Response(Message):
    """An answer."""

    __slots__ = ()
