"""The head of a request: API and version. Checks whether bytes can be a request."""

from __future__ import annotations

import struct
from typing import NamedTuple

from kshare.protocol.envelopes import known_request

_HEAD = struct.Struct(">hhih")
_LONGEST_CLIENT_ID = 1000
SHORTEST = _HEAD.size


class Head(NamedTuple):
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    end: int
    """The position after the client id."""


def read_head(frame: memoryview) -> Head | None:
    """The head of a frame (without its size); None if it can't be a request."""
    if len(frame) < SHORTEST:
        return None
    api_key, version, correlation_id, length = _HEAD.unpack_from(frame)
    if not 0 <= version < 100 or not 0 <= api_key < 200 or not -1 <= length <= _LONGEST_CLIENT_ID:
        return None
    if length < 0:
        return Head(api_key, version, correlation_id, None, SHORTEST)
    end = SHORTEST + length
    if end > len(frame):
        return None
    try:
        client_id = str(frame[SHORTEST:end], "utf-8")
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
