"""CRC-32C, the checksum of record batches.

The package that computes it is imported with the first checksum, to keep startup fast.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

Buffer = bytes | bytearray | memoryview


def crc32c(data: Buffer) -> int:
    return _calculator()(data)


@cache
def _calculator() -> Callable[[Buffer], int]:
    from crc32c import crc32c as calculate

    return calculate
