"""Reads packets from capture files of either format, chunk by chunk, so a capture may be larger than the memory.

Recognizes the format by the first four bytes. Doesn't look into packets.
"""

from __future__ import annotations

from collections.abc import Iterator

from .packet import CaptureError, Packet
from .pcap import MAGICS, PcapFile
from .pcapng import PCAPNG_MAGIC, PcapngFile

_MAGIC_BYTES = 4


def is_capture(head: bytes | memoryview) -> bool:
    """Whether a file that begins so is a capture."""
    magic = bytes(head[:_MAGIC_BYTES])
    return magic in MAGICS or magic == PCAPNG_MAGIC


class CaptureReader:
    """Turns the bytes of a file into packets."""

    def __init__(self) -> None:
        self._rest = b""
        self._position = 0
        self._format: PcapFile | PcapngFile | None = None

    def feed(self, chunk: bytes) -> Iterator[Packet]:
        """Returns the packets that `chunk` completes, as views of it. Raises CaptureError if this isn't a capture."""
        data = self._rest + chunk if self._rest else chunk
        if self._format is None:
            if len(data) < _MAGIC_BYTES:
                self._rest = data
                return
            self._format = _format_of(data)
        try:
            yield from self._format.packets(memoryview(data))
        except CaptureError as problem:
            raise CaptureError(self._position + problem.offset, problem.reason) from None
        self._position += self._format.consumed
        self._rest = data[self._format.consumed :]

    def finish(self) -> None:
        """Raises CaptureError if the file ends in the middle of a packet."""
        if self._rest or self._format is None:
            present = f"{len(self._rest)} bytes of it are present" if self._format else "too short to be one"
            reason = "the file ends in the middle of a packet" if self._format else "not a capture file"
            raise CaptureError(self._position, f"{reason}, {present}")


def _format_of(data: bytes) -> PcapFile | PcapngFile:
    if data[:_MAGIC_BYTES] == PCAPNG_MAGIC:
        return PcapngFile()
    if data[:_MAGIC_BYTES] in MAGICS:
        return PcapFile()
    raise CaptureError(
        0, f"not a capture file: it begins with {data[:_MAGIC_BYTES].hex(' ')}, neither pcap nor pcapng"
    )
