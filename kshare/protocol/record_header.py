"""The layout of a batch's 61-byte header, format 2, for the reader and the builder of batches.

Only positions of fields and meanings of bits.
"""

from __future__ import annotations

import enum
import struct

HEADER = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, checksum, attributes, last offset delta, base timestamp, max timestamp,
producer id, producer epoch, base sequence, number of records."""

MAGIC = 2
LENGTH_AT = 8
LENGTH_BEHIND = 12
"""The length counts the bytes from here on."""
LEADER_EPOCH_AT = 12
MAGIC_AT = 16
CHECKSUM_AT = 17
CHECKSUM_BEHIND = 21
"""The checksum covers the bytes from here on: base offset and leader epoch can change without it."""
ATTRIBUTES_AT = 21
MAX_TIMESTAMP_AT = 35

CODEC_MASK = 0x07
APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20

MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1


class ControlType(enum.IntEnum):
    """The type of a control record, from its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    RAFT_VERSION = 5
    RAFT_VOTERS = 6
