"""Encodes the few requests of `requests`, by hand, so that neither kshare nor another client is needed.

Each request has its own connection, which is slow but simple, and leaves nothing open.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable

RESPONSE_DEADLINE_S = 10.0
_CLIENT = b"kshare-rig"

Address = tuple[str, int]


def ask(address: Address, api: int, version: int, body: bytes, deadline: float | None = None) -> Response:
    """Send one request of a flexible version, and return the body of its response. Raises OSError if there is none.

    `deadline` is for each step (connecting, sending, reading), in seconds.
    """
    header = struct.pack(">hhih", api, version, 1, len(_CLIENT)) + _CLIENT + NO_TAGS
    limit = RESPONSE_DEADLINE_S if deadline is None else deadline
    with socket.create_connection(address, timeout=limit) as connection:
        connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        size = struct.unpack(">i", _read(connection, 4))[0]
        response = Response(_read(connection, size))
    response.skip(4)  # the correlation id: there was only one request
    response.skip_tags()
    return response


def text(value: str | None) -> bytes:
    """A compact nullable string."""
    if value is None:
        return unsigned(0)
    encoded = value.encode()
    return unsigned(len(encoded) + 1) + encoded


def array(items: Iterable[bytes]) -> bytes:
    """A compact array of encoded items."""
    encoded = list(items)
    return unsigned(len(encoded) + 1) + b"".join(encoded)


def unsigned(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


NO_TAGS = unsigned(0)


class Response:
    """Reads a response from start to end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def skip(self, count: int) -> None:
        self._at += count

    def int16(self) -> int:
        return self._number(">h")

    def int32(self) -> int:
        return self._number(">i")

    def text(self) -> str | None:
        size = self.unsigned() - 1
        if size < 0:
            return None
        self._at += size
        return self._data[self._at - size : self._at].decode()

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def array_length(self) -> int:
        return self.unsigned() - 1

    def skip_tags(self) -> None:
        for _ in range(self.unsigned()):
            self.unsigned()
            self.skip(self.unsigned())

    def _number(self, form: str) -> int:
        value: int = struct.unpack_from(form, self._data, self._at)[0]
        self._at += struct.calcsize(form)
        return value


def _read(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = connection.recv(min(size, 65536))
        if not part:
            raise ConnectionError("the broker closed the connection before it responded")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
