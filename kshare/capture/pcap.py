"""The pcap format: a header, then packets. Both byte orders, microseconds and nanoseconds."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from .packet import MAX_PACKET_BYTES, CaptureError, Packet

_FILE_HEADER = 24
_PACKET_HEADER = 16
_LINK_AT = 20
_LINK_MASK = 0xFFFF
"""The higher bits may contain the length of frame checksums."""

MAGICS: dict[bytes, tuple[str, float]] = {
    b"\xd4\xc3\xb2\xa1": ("<", 1e-6),
    b"\xa1\xb2\xc3\xd4": (">", 1e-6),
    b"\x4d\x3c\xb2\xa1": ("<", 1e-9),
    b"\xa1\xb2\x3c\x4d": (">", 1e-9),
}
"""First bytes of a file → byte order, and the unit of the fractions of a second."""


class PcapFile:
    """Extracts packets from the bytes of a pcap file, which are passed in order."""

    def __init__(self) -> None:
        self.consumed = 0
        self._order = "<"
        self._fraction = 0.0
        self._link: int | None = None

    def packets(self, data: memoryview) -> Iterator[Packet]:
        self.consumed = 0
        if self._link is None:
            if len(data) < _FILE_HEADER:
                return
            self._begin(data)
            self.consumed = _FILE_HEADER
        link = self._link
        assert link is not None, "the header was read"
        read = struct.Struct(f"{self._order}IIII").unpack_from
        fraction = self._fraction
        at, end = self.consumed, len(data)
        while at + _PACKET_HEADER <= end:
            seconds, part, size, _ = read(data, at)
            if size > MAX_PACKET_BYTES:
                raise CaptureError(at, f"a packet with an invalid size of {size} bytes")
            begin = at + _PACKET_HEADER
            if begin + size > end:
                break
            at = begin + size
            yield Packet(seconds + part * fraction, link, data[begin:at])
        self.consumed = at

    def _begin(self, data: memoryview) -> None:
        self._order, self._fraction = MAGICS[bytes(data[:4])]
        (link,) = struct.unpack_from(f"{self._order}I", data, _LINK_AT)
        self._link = link & _LINK_MASK
