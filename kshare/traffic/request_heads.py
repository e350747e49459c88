"""The head of a request: API and version. Checks whether bytes can be a request.

Of a connection whose beginning was not seen, the client is the side that sends requests. A response can begin like a
request by chance, but can't be decoded as one to its last byte: so whole requests are decoded where possible.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kshare.errors import KshareError
from kshare.protocol.envelopes import decode_request, known_request
from kshare.protocol.frames import MAX_FRAME, SIZE_BYTES

_HEAD = struct.Struct(">hhih")
_LONGEST_CLIENT_ID = 1000
_SHORTEST = _HEAD.size
_TLS_RECORDS = (b"\x14\x03", b"\x15\x03", b"\x16\x03", b"\x17\x03")


class Head(NamedTuple):
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    end: int
    """The position after the client id."""


def read_head(frame: memoryview) -> Head | None:
    """The head of a frame (without its size); None if it can't be a request."""
    if len(frame) < _SHORTEST:
        return None
    api_key, version, correlation_id, length = _HEAD.unpack_from(frame)
    if not 0 <= version < 100 or not 0 <= api_key < 200 or not -1 <= length <= _LONGEST_CLIENT_ID:
        return None
    if length < 0:
        return Head(api_key, version, correlation_id, None, _SHORTEST)
    end = _SHORTEST + length
    if end > len(frame):
        return None
    try:
        client_id = str(frame[_SHORTEST:end], "utf-8")
    except UnicodeDecodeError:
        return None
    return Head(api_key, version, correlation_id, client_id, end)


def is_familiar(head: Head) -> bool:
    """Whether kshare knows this request and version, and the client id is printable."""
    cls = known_request(head.api_key)
    return (
        cls is not None
        and cls.VERSIONS[0] <= head.version <= cls.VERSIONS[1]
        and head.correlation_id >= 0
        and (head.client_id or "").isprintable()
    )


def is_tls(data: bytes) -> bool:
    """Whether bytes begin with a TLS record."""
    return data[:2] in _TLS_RECORDS


def begins_with_request(data: bytes) -> bool:
    """Whether bytes begin with the frame of a request, complete or not."""
    size = int.from_bytes(data[:SIZE_BYTES], "big", signed=True)
    if not SIZE_BYTES < size <= MAX_FRAME:
        return False
    frame = memoryview(data)[SIZE_BYTES : SIZE_BYTES + size]
    head = read_head(frame)
    if head is None or not is_familiar(head):
        return False
    if len(frame) < size:
        return bool(head.client_id)
    try:
        decode_request(frame)
    except KshareError:
        return False
    return True
