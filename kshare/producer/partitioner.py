"""Chooses the partition of a key as Java producers do.

That is murmur2 (32 bits, Java's seed) of the key, without its sign, modulo the number of partitions.
"""

from __future__ import annotations

import struct

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_WORD = struct.Struct("<I")


def partition_for(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def murmur2(data: bytes) -> int:
    """The hash as an unsigned number."""
    hashed = (_SEED ^ len(data)) & _MASK
    aligned = len(data) - len(data) % _WORD.size
    for (word,) in _WORD.iter_unpack(data[:aligned]):
        word = word * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        hashed = hashed * _M & _MASK ^ word
    rest = data[aligned:]
    if rest:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _M & _MASK
    hashed = (hashed ^ hashed >> 13) * _M & _MASK
    return hashed ^ hashed >> 15
