"""Extracts TCP segments from packets: Ethernet, Linux's cooked headers, loopback and raw IP, VLAN tags, IPv4 and IPv6.

Segments may have been captured only in part. IP fragments are not reassembled; TCP avoids them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from ipaddress import ip_address
from typing import NamedTuple

from .packet import Packet

FIN, SYN, RST, ACK = 1, 2, 4, 16

SocketAddress = tuple[bytes, int]
"""IP address, packed, and port."""


class Segment(NamedTuple):
    """One TCP segment as it was captured."""

    source: SocketAddress
    target: SocketAddress
    sequence: int
    acknowledged: int
    flags: int
    payload: memoryview
    missing: int
    """How many bytes after the payload were on the wire and not captured."""


class UnreadPacketError(Exception):
    """A packet may contain TCP, but can't be read. The same reason has the same text for all packets."""


def endpoint(address: SocketAddress) -> str:
    """The address as text: ip:port, with IPv6 addresses in brackets."""
    ip = ip_address(address[0])
    return f"{ip}:{address[1]}" if ip.version == 4 else f"[{ip}]:{address[1]}"


def segment_of(packet: Packet) -> Segment | None:
    """The TCP segment of a packet. None if it contains no TCP; raises UnreadPacketError if it can't be read."""
    read = _LINKS.get(packet.link)
    if read is None:
        raise UnreadPacketError(f"link type {packet.link}")
    try:
        return read(packet.data)
    except (struct.error, IndexError):
        raise UnreadPacketError("truncated inside the headers") from None


_IPV4, _IPV6 = 0x0800, 0x86DD
_VLANS = (0x8100, 0x88A8, 0x9100)
_TCP_PROTOCOL = 6
_IPV6_EXTENSIONS = (0, 43, 60)
_IPV6_AUTHENTICATION, _IPV6_FRAGMENT = 51, 44
_MORE_FRAGMENTS_AND_OFFSET = 0x3FFF
_MORE_FRAGMENTS_AND_OFFSET_6 = 0xFFF9
_FAMILY_IPV4 = 2
_FAMILIES_IPV6 = (10, 23, 24, 28, 30)
"""Operating systems use different numbers."""

_two_bytes = struct.Struct(">H").unpack_from
_ip4 = struct.Struct(">BxHxxHxBxx4s4s").unpack_from
_ip6 = struct.Struct(">4xHBx16s16s").unpack_from
_tcp = struct.Struct(">HHIIBB").unpack_from


def _ethernet(data: memoryview) -> Segment | None:
    return _by_ethernet_type(data, 12, 14)


def _cooked(data: memoryview) -> Segment | None:
    return _by_ethernet_type(data, 14, 16)


def _cooked_2(data: memoryview) -> Segment | None:
    return _by_ethernet_type(data, 0, 20)


def _by_ethernet_type(data: memoryview, type_at: int, at: int) -> Segment | None:
    (number,) = _two_bytes(data, type_at)
    while number in _VLANS:
        (number,) = _two_bytes(data, at + 2)
        at += 4
    if number == _IPV4:
        return _from_ipv4(data, at)
    return _from_ipv6(data, at) if number == _IPV6 else None


def _loopback(data: memoryview) -> Segment | None:
    """The address family is in the byte order of the capturing machine; all families are below 256."""
    family = data[0] | data[3]
    if family == _FAMILY_IPV4:
        return _from_ipv4(data, 4)
    return _from_ipv6(data, 4) if family in _FAMILIES_IPV6 else None


def _raw(data: memoryview) -> Segment | None:
    return _from_ipv4(data, 0) if data[0] >> 4 == 4 else _from_ipv6(data, 0)


def _from_ipv4(data: memoryview, at: int) -> Segment | None:
    first, total, fragment, protocol, source, target = _ip4(data, at)
    header = (first & 15) * 4
    if protocol != _TCP_PROTOCOL or first >> 4 != 4 or header < 20:
        return None
    if fragment & _MORE_FRAGMENTS_AND_OFFSET:
        raise UnreadPacketError("IP fragments")
    # The length is 0 in packets that the network card splits into segments later.
    end = at + total if total else len(data)
    return _from_tcp(data, at + header, end, source, target)


def _from_ipv6(data: memoryview, at: int) -> Segment | None:
    if data[at] >> 4 != 6:
        return None
    length, protocol, source, target = _ip6(data, at)
    at += 40
    end = at + length if length else len(data)
    while protocol != _TCP_PROTOCOL:
        if protocol == _IPV6_FRAGMENT:
            if _two_bytes(data, at + 2)[0] & _MORE_FRAGMENTS_AND_OFFSET_6:
                raise UnreadPacketError("IP fragments")
            size = 8
        elif protocol == _IPV6_AUTHENTICATION:
            size = (data[at + 1] + 2) * 4
        elif protocol in _IPV6_EXTENSIONS:
            size = (data[at + 1] + 1) * 8
        else:
            return None
        protocol = data[at]
        at += size
    return _from_tcp(data, at, end, source, target)


def _from_tcp(data: memoryview, at: int, end: int, source: bytes, target: bytes) -> Segment | None:
    source_port, target_port, sequence, acknowledged, size, flags = _tcp(data, at)
    begin = at + (size >> 4) * 4
    if begin < at + 20 or begin > end:
        return None
    return Segment(
        (source, source_port),
        (target, target_port),
        sequence,
        acknowledged if flags & ACK else -1,
        flags,
        data[begin:end],
        max(0, end - max(begin, len(data))),
    )


_LINKS: dict[int, Callable[[memoryview], Segment | None]] = {
    0: _loopback,
    1: _ethernet,
    12: _raw,
    14: _raw,
    101: _raw,
    108: _loopback,
    113: _cooked,
    228: _raw,
    229: _raw,
    276: _cooked_2,
}
"""By the link type's number in captures: null, Ethernet, raw IP (two numbers that some systems use), raw IP, OpenBSD's
loopback, Linux cooked, only IPv4, only IPv6, Linux cooked 2."""
