"""What simulated records have besides their value, and how their batches are compressed.

A judge that knew values only would miss what else is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kshare.producer.settings import CompressionName

_COMPRESSIONS: tuple[CompressionName | None, ...] = (None, None, None, "zstd", "snappy", "lz4", "zstd")
"""Not gzip: how many bytes that makes depends on the machine's zlib."""


class Attributes(NamedTuple):
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


def compression_of(seed: int) -> CompressionName | None:
    """All producers of a simulation use the same."""
    return _COMPRESSIONS[seed % len(_COMPRESSIONS)]


def headers_of(number: int) -> tuple[tuple[str, bytes | None], ...]:
    """None, some, an empty one, one without a value, a name twice."""
    kinds: tuple[tuple[tuple[str, bytes | None], ...], ...] = (
        (),
        (("number", b"%d" % number),),
        (("empty", b""), ("none", None)),
        (("twice", b"%d" % number), ("twice", b"again"), ("größe", b"\0\xff")),
    )
    return kinds[number % len(kinds)]


def different(expected: Attributes, record: Any) -> Iterator[str]:
    """What a record that was handed out has otherwise."""
    found = Attributes(record.key, tuple(record.headers), record.timestamp)
    for name, wanted, got in zip(expected._fields, expected, found, strict=True):
        if wanted != got:
            yield f"{name} {got!r}, not {wanted!r}"
