"""The base classes of generated messages: encoding and decoding in a version, with errors that name the field."""

from __future__ import annotations

import struct
from typing import Any, ClassVar, Generic, Self, TypeVar

from kshare.errors import DecodeError, EncodeError
from kshare.protocol.primitives import Buffer

_BROKEN = (IndexError, ValueError, struct.error)
_UNWRITABLE = (AttributeError, IndexError, TypeError, ValueError, OverflowError, struct.error)


class Message:
    """The base class of requests, responses, headers and state records; generated classes add fields and codecs."""

    __slots__ = ()

    NAME: ClassVar[str]
    API_KEY: ClassVar[int]
    """The key of its API; for state records the record type; -1 if there is neither."""
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
        """Encodes the message. Raises EncodeError if a value doesn't fit or the version doesn't have a field."""
        out = bytearray()
        self.append_to(out, version)
        return bytes(out)

    def append_to(self, out: bytearray, version: int) -> None:
        """Like `encode`, but appends to `out`. After an error `out` is unchanged."""
        if check := version_problem(type(self), version):
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
        """Decodes a message that fills all of `data`. Fields of type records are views of `data`."""
        message, end = cls.decode_prefix(data, version)
        if end != len(data):
            raise DecodeError(cls.NAME, end, f"{len(data) - end} bytes are left over after the message")
        return message

    @classmethod
    def decode_prefix(cls, data: Buffer, version: int, start: int = 0) -> tuple[Self, int]:
        """Decodes the message that begins at `start`; also returns where it ends."""
        if check := version_problem(cls, version):
            raise DecodeError("", start, check)
        try:
            return cls.decode_from(data, start, version)
        except _BROKEN as error:
            from kshare.protocol.diagnose import explain_decode

            raise explain_decode(cls, data, start, version, error) from None


def version_problem(cls: type[Message], version: int) -> str | None:
    """Why the message can't be in this version; None if it can."""
    first, last = cls.VERSIONS
    if first <= version <= last:
        return None
    return f"{cls.NAME} has no version {version}: it has {first} to {last}"


ResponseT = TypeVar("ResponseT", bound=Message)


class Request(Message, Generic[ResponseT]):
    """A request, with the class of its response."""

    __slots__ = ()

    RESPONSE: ClassVar[type[Message]]


class Response(Message):
    """A response."""

    __slots__ = ()
