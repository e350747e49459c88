"""CRC-32C, which record batches carry.

The package behind it is loaded with the first checksum: whoever has no batch yet needn't wait for it.
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
