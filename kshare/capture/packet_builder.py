"""Builds IP packets with TCP segments from streams: for a proxy, which never sees packets, to write a capture.

Decides what such packets contain: no options, always the largest window, and correct checksums, as programs that read
captures complain otherwise.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address, ip_address

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16

_TCP = struct.Struct(">HHIIBBHHH")
_IPV4 = struct.Struct(">BBHHHBBH4s4s")
_IPV6 = struct.Struct(">IHBB16s16s")
_TCP_PROTOCOL = 6
_HOPS = 64
_DO_NOT_FRAGMENT = 0x4000
_NO_OPTIONS = 0x50
_WINDOW = 0xFFFF
_SEQUENCES = 0xFFFFFFFF


class Direction:
    """Packets from one end of a connection to the other."""

    def __init__(self, source: tuple[str, int], target: tuple[str, int]) -> None:
        addresses = ip_address(source[0]), ip_address(target[0])
        if addresses[0].version != addresses[1].version:
            addresses = _as_ipv6(addresses[0]), _as_ipv6(addresses[1])
        self._is_ipv6 = addresses[0].version == 6
        self._addresses = addresses[0].packed, addresses[1].packed
        self._ports = source[1], target[1]
        self._pseudo = sum(number % 0xFFFF for number in map(_number, self._addresses)) + _TCP_PROTOCOL
        self.sequence = 0

    def packet(self, flags: int, acknowledged: int, payload: bytes | memoryview = b"") -> bytes:
        """Builds the next packet and advances `sequence`."""
        segment = bytearray(_TCP.size + len(payload))
        acknowledged &= _SEQUENCES
        head = (*self._ports, self.sequence & _SEQUENCES, acknowledged, _NO_OPTIONS, flags, _WINDOW)
        _TCP.pack_into(segment, 0, *head, 0, 0)
        segment[_TCP.size :] = payload
        _TCP.pack_into(segment, 0, *head, _checksum(segment, self._pseudo + len(segment)), 0)
        self.sequence += len(payload) + bool(flags & (SYN | FIN))
        return self._ip_header(len(segment)) + segment

    def _ip_header(self, length: int) -> bytes:
        if self._is_ipv6:
            return _IPV6.pack(6 << 28, length, _TCP_PROTOCOL, _HOPS, *self._addresses)
        head = (0x45, 0, _IPV4.size + length, 0, _DO_NOT_FRAGMENT, _HOPS, _TCP_PROTOCOL)
        checksum = _checksum(_IPV4.pack(*head, 0, *self._addresses), 0)
        return _IPV4.pack(*head, checksum, *self._addresses)


def _as_ipv6(address: IPv4Address | IPv6Address) -> IPv6Address:
    return address if address.version == 6 else IPv6Address(b"\0" * 10 + b"\xff\xff" + address.packed)


def _checksum(data: bytes | bytearray, initial: int) -> int:
    """RFC 1071's checksum. Adding with end-around carry is addition modulo 0xffff: fast for one long number."""
    total = (_number(data) + initial) % 0xFFFF
    return (0xFFFF - total) & 0xFFFF


def _number(data: bytes | bytearray) -> int:
    return int.from_bytes(data, "big") << 8 * (len(data) % 2)
