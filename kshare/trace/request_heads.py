"""Reads the first twelve bytes of each request from a stream, without keeping the rest."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_HEAD = struct.Struct(">ihhi")
_BEHIND_SIZE = _HEAD.size - 4


class RequestHead(NamedTuple):
    api_key: int
    version: int
    correlation_id: int


class RequestHeadReader:
    """Follows the sizes from one head to the next. Frames too short for a head (old SASL tokens) are skipped."""

    def __init__(self) -> None:
        self._head = b""
        self._skip = 0

    @property
    def is_amid(self) -> bool:
        return bool(self._head or self._skip)

    def feed(self, chunk: bytes | memoryview) -> Iterator[RequestHead]:
        at = 0
        while at < len(chunk):
            if self._skip:
                passed = min(self._skip, len(chunk) - at)
                self._skip -= passed
                at += passed
                continue
            wanted = _HEAD.size if len(self._head) >= 4 else 4
            taken = bytes(chunk[at : at + wanted - len(self._head)])
            self._head += taken
            at += len(taken)
            if len(self._head) < wanted:
                return
            size = int.from_bytes(self._head[:4], "big", signed=True)
            if wanted == 4 and size < _BEHIND_SIZE:
                self._head, self._skip = b"", max(size, 0)
            elif wanted == _HEAD.size:
                _, *head = _HEAD.unpack(self._head)
                self._head, self._skip = b"", size - _BEHIND_SIZE
                yield RequestHead(*head)
