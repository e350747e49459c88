"""The pcapng format: blocks, some of which are packets.

A section header contains the byte order; interface blocks contain the link type and the resolution of timestamps.
Other blocks (names, statistics, keys, comments) are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from .packet import MAX_PACKET_BYTES, CaptureError, Packet

PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"
"""The same in both byte orders."""

_SECTION, _INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET = 0x0A0D0D0A, 1, 2, 3, 6
_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_HEAD = 8
_TRAILER = 4
_LEAST_SIZES = {_SECTION: 28, _INTERFACE: 20, _OLD_PACKET: 32, _SIMPLE_PACKET: 16, _PACKET: 32}
_RESOLUTION, _OFFSET = 9, 14
_OF_TWO = 0x80
_MICROSECOND = 1e-6


class _Interface(NamedTuple):
    link: int
    most_captured: int
    tick: float
    offset: int


class PcapngFile:
    """Extracts packets from the bytes of a pcapng file, which are passed in order."""

    def __init__(self) -> None:
        self.consumed = 0
        self._interfaces: list[_Interface] = []
        self._use("<")

    def _use(self, order: str) -> None:
        self._order = order
        self._read_head = struct.Struct(f"{order}II").unpack_from
        self._read_packet = struct.Struct(f"{order}IIII").unpack_from

    def packets(self, data: memoryview) -> Iterator[Packet]:
        self.consumed = at = 0
        end = len(data)
        while at + _HEAD + _TRAILER <= end:
            kind, size = self._read_head(data, at)
            if kind == _SECTION:  # the same in both byte orders
                self._begin_section(data, at)
                kind, size = self._read_head(data, at)
            if not _LEAST_SIZES.get(kind, _HEAD + _TRAILER) <= size <= MAX_PACKET_BYTES or size % 4:
                raise CaptureError(at, f"a block with an invalid size of {size} bytes")
            if at + size > end:
                break
            if kind == _INTERFACE:
                self._interfaces.append(self._interface(data[at + _HEAD : at + size - _TRAILER]))
            elif kind in (_PACKET, _OLD_PACKET, _SIMPLE_PACKET):
                yield self._packet(data, at, kind, size)
            at += size
        self.consumed = at

    def _begin_section(self, data: memoryview, at: int) -> None:
        order = _ORDERS.get(bytes(data[at + _HEAD : at + _HEAD + 4]))
        if order is None:
            raise CaptureError(at, "a section header without a valid byte order")
        self._use(order)
        self._interfaces = []

    def _interface(self, body: memoryview) -> _Interface:
        link, _, most_captured = struct.unpack_from(f"{self._order}HHI", body)
        tick, offset = _MICROSECOND, 0
        at = 8
        while at + 4 <= len(body):
            code, size = struct.unpack_from(f"{self._order}HH", body, at)
            value = body[at + 4 : at + 4 + size]
            if code == _RESOLUTION and size == 1 and value:
                tick = 2.0 ** -(value[0] & ~_OF_TWO) if value[0] & _OF_TWO else 10.0 ** -value[0]
            elif code == _OFFSET and len(value) == size == 8:
                (offset,) = struct.unpack(f"{self._order}q", value)
            at += 4 + (size + 3) // 4 * 4
        return _Interface(link, most_captured or MAX_PACKET_BYTES, tick, offset)

    def _packet(self, data: memoryview, at: int, kind: int, size: int) -> Packet:
        ticks = number = 0
        begin = at + _HEAD + 20
        if kind == _PACKET:
            number, high, low, captured = self._read_packet(data, at + _HEAD)
            ticks = high << 32 | low
        elif kind == _OLD_PACKET:
            number, _, high, low, captured = struct.unpack_from(f"{self._order}HHIII", data, at + _HEAD)
            ticks = high << 32 | low
        else:
            (captured,) = struct.unpack_from(f"{self._order}I", data, at + _HEAD)
            begin = at + _HEAD + 4
        if number >= len(self._interfaces):
            raise CaptureError(at, f"a packet of interface {number}, which was not described before it")
        interface = self._interfaces[number]
        available = size - _TRAILER - (begin - at)
        if kind == _SIMPLE_PACKET:
            captured = min(captured, interface.most_captured, available)
        if captured > available:
            raise CaptureError(at, f"a packet of {captured} bytes in a block of {size}")
        time = interface.offset + ticks * interface.tick
        return Packet(time, interface.link, data[begin : begin + captured])
