"""Encodes and decodes whole frames: the header of a request or response, and its body."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TypeVar

from kshare.errors import DecodeError
from kshare.protocol import messages
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.frames import (
    begin_frame,
    end_frame,
    request_header_version,
    response_header_version,
)
from kshare.protocol.message import Message, Request
from kshare.protocol.messages.request_header import RequestHeader
from kshare.protocol.messages.response_header import ResponseHeader
from kshare.protocol.primitives import Buffer

__all__ = ["decode_request", "decode_response", "encode_request", "encode_response"]

ResponseT = TypeVar("ResponseT", bound=Message)
MessageT = TypeVar("MessageT", bound=Message)

_CORRELATION_ID = 8
"""Its position in a frame: after size, API key and version."""


def encode_request(
    request: Request[ResponseT], version: int, correlation_id: int, client_id: str | None
) -> bytearray:
    """The whole frame, including its size."""
    frame = bytearray(_frame_head(request.API_KEY, version, client_id))
    struct.pack_into(">i", frame, _CORRELATION_ID, correlation_id)
    request.append_to(frame, version)
    return end_frame(frame)


@lru_cache(maxsize=256)
def _frame_head(api_key: int, version: int, client_id: str | None) -> bytes:
    """The bytes that all such requests begin with, with zeros for size and correlation id."""
    frame = begin_frame()
    is_flexible = request_class(api_key).is_flexible(version)
    header = RequestHeader(api_key, version, 0, client_id)
    header.append_to(frame, request_header_version(api_key, version, is_flexible))
    return bytes(frame)


def encode_response(response: Message, version: int, correlation_id: int) -> bytearray:
    """The whole frame, including its size."""
    header = ResponseHeader(correlation_id)
    frame = begin_frame()
    header.append_to(frame, response_header_version(response.API_KEY, response.is_flexible(version)))
    response.append_to(frame, version)
    return end_frame(frame)


def decode_request(frame: Buffer) -> tuple[RequestHeader, Message]:
    """Header and body of a request's frame without its size."""
    if len(frame) < 4:
        raise DecodeError("header", 0, f"a request of {len(frame)} bytes has no room for its header")
    key, version = struct.unpack_from(">hh", frame, 0)
    cls = request_class(key)
    if not cls.VERSIONS[0] <= version <= cls.VERSIONS[1]:
        raise DecodeError("header.requestApiVersion", 2, f"{cls.NAME} has no version {version}")
    header_version = request_header_version(key, version, cls.is_flexible(version))
    header, pos = RequestHeader.decode_prefix(frame, header_version)
    return header, decode_body(cls, version, frame, pos)


def decode_response(cls: type[ResponseT], version: int, frame: Buffer) -> tuple[int, ResponseT]:
    """Correlation id and body of a response's frame without its size. The caller knows the expected class."""
    header, pos = ResponseHeader.decode_prefix(
        frame, response_header_version(cls.API_KEY, cls.is_flexible(version))
    )
    return header.correlation_id, decode_body(cls, version, frame, pos)


def decode_body(cls: type[MessageT], version: int, frame: Buffer, pos: int) -> MessageT:
    """Decodes the body, for callers that have read the header. It begins at `pos`."""
    message, end = cls.decode_prefix(frame, version, pos)
    if end != len(frame):
        raise DecodeError("", end, f"{len(frame) - end} bytes are left over after the message")
    return message


def is_version_refused(frame: Buffer) -> bool:
    """Whether an ApiVersions response says that the broker doesn't know the request's version (and is in version 0)."""
    return int.from_bytes(frame[4:6], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION


def request_class(api_key: int) -> type[Message]:
    cls = known_request(api_key)
    if cls is None:
        raise DecodeError("header.requestApiKey", 0, f"kshare knows no request with API key {api_key}")
    return cls


def known_request(api_key: int) -> type[Message] | None:
    name = messages.REQUESTS.get(api_key)
    cls: type[Message] | None = getattr(messages, name) if name else None
    return cls
