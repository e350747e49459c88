"""Record batches built field by field, so that tests can make them invalid."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import google_crc32c

from kshare.protocol.compression import Compression, compress


def varint(value: int) -> bytes:
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def sized(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


@dataclass
class Record:
    key: bytes | None = None
    value: bytes | None = b"v"
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_delta: int = 0

    def written(self, offset_delta: int) -> bytes:
        body = (
            b"\x00"
            + varint(self.timestamp_delta)
            + varint(offset_delta)
            + sized(self.key)
            + sized(self.value)
        )
        body += varint(len(self.headers))
        body += b"".join(sized(name.encode()) + sized(value) for name, value in self.headers)
        return varint(len(body)) + body


def batch(
    *records: Record,
    base_offset: int = 0,
    codec: Compression = Compression.NONE,
    attributes: int = 0,
    count: int | None = None,
    section: bytes | None = None,
    crc: int | None = None,
) -> bytes:
    """A batch of magic 2. `count`, `section` (the bytes of the records) and `crc` override the right values."""
    if section is None:
        section = compress(codec, b"".join(record.written(i) for i, record in enumerate(records)))
    count = len(records) if count is None else count
    timestamp = 1_700_000_000_000
    checked = struct.pack(
        ">hiqqqhii", attributes | codec, len(records) - 1, timestamp, timestamp, -1, -1, -1, count
    )
    checked += section
    crc = google_crc32c.value(checked) if crc is None else crc
    behind_length = struct.pack(">ibI", 4, 2, crc) + checked
    return struct.pack(">qi", base_offset, len(behind_length)) + behind_length
