"""Writes streams as a pcapng file that Wireshark opens: connections with handshake, segments, acknowledgements and end.

Decides how connections that were never captured as packets appear in it. Never opens a file: it calls a function that
takes bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from .packet_builder import ACK, FIN, PSH, RST, SYN, Direction

Endpoint = tuple[str, int]
"""An IP address as text, and a port."""

_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_BYTE_ORDER = 0x1A2B3C4D
_LENGTH_UNKNOWN = -1
_RAW_IP = 101
_USER_APPLICATION, _INTERFACE_NAME, _RESOLUTION = 4, 2, 9
_NANOSECONDS = 9
_MOST_PAYLOAD = 32_768
"""With headers, this stays far below an IP packet's limit of 65,535 bytes."""


class CaptureWriter:
    """Writes a capture. Each call writes whole blocks at once, so the file can be read at any time."""

    def __init__(self, write: Callable[[bytes], object], *, interface: str = "kshare") -> None:
        self._write = write
        section = struct.pack("<IHHq", _BYTE_ORDER, 1, 0, _LENGTH_UNKNOWN)
        write(_block(_SECTION, section + _option(_USER_APPLICATION, b"kshare") + _option(0, b"")))
        options = _option(_INTERFACE_NAME, interface.encode()) + _option(_RESOLUTION, bytes([_NANOSECONDS]))
        write(_block(_INTERFACE, struct.pack("<HHI", _RAW_IP, 0, 0) + options + _option(0, b"")))

    def connect(self, client: Endpoint, server: Endpoint, time: float) -> WrittenConnection:
        """Begins a connection. All times are in seconds since the Unix epoch."""
        return WrittenConnection(self.packets, client, server, time)

    def packets(self, packets: list[bytes], time: float) -> None:
        """Writes IP packets with this time."""
        nanoseconds = round(time * 1e6) * 1000
        blocks = []
        for packet in packets:
            size = len(packet)
            head = struct.pack("<IIIII", 0, nanoseconds >> 32, nanoseconds & 0xFFFFFFFF, size, size)
            blocks.append(_block(_PACKET, head + packet))
        self._write(b"".join(blocks))


class WrittenConnection:
    """One TCP connection of a capture. Call its methods in the order in which things happened."""

    def __init__(
        self, write: Callable[[list[bytes], float], None], client: Endpoint, server: Endpoint, time: float
    ) -> None:
        self._write = write
        self._client = Direction(client, server)
        self._server = Direction(server, client)
        opening = [
            self._client.packet(SYN, 0),
            self._server.packet(SYN | ACK, 1),
            self._client.packet(ACK, 1),
        ]
        self._write(opening, time)

    def client_sends(self, data: bytes | memoryview, time: float) -> None:
        self._send(self._client, self._server, data, time)

    def server_sends(self, data: bytes | memoryview, time: float) -> None:
        self._send(self._server, self._client, data, time)

    def close(self, time: float, *, by_client: bool = True) -> None:
        first, second = (self._client, self._server) if by_client else (self._server, self._client)
        closing = [
            first.packet(FIN | ACK, second.sequence),
            second.packet(FIN | ACK, first.sequence),
            first.packet(ACK, second.sequence),
        ]
        self._write(closing, time)

    def abort(self, time: float, *, by_client: bool = True) -> None:
        """Resets the connection."""
        first, second = (self._client, self._server) if by_client else (self._server, self._client)
        self._write([first.packet(RST | ACK, second.sequence)], time)

    def _send(self, source: Direction, target: Direction, data: bytes | memoryview, time: float) -> None:
        packets = [
            source.packet(ACK | PSH, target.sequence, data[at : at + _MOST_PAYLOAD])
            for at in range(0, len(data), _MOST_PAYLOAD)
        ]
        if packets:
            packets.append(target.packet(ACK, source.sequence))
            self._write(packets, time)


def _block(kind: int, body: bytes) -> bytes:
    length = 12 + (len(body) + 3) // 4 * 4
    return struct.pack("<II", kind, length) + body.ljust(length - 12, b"\0") + struct.pack("<I", length)


def _option(code: int, value: bytes) -> bytes:
    """Code 0 ends a list of options."""
    return struct.pack("<HH", code, len(value)) + value.ljust((len(value) + 3) // 4 * 4, b"\0")
