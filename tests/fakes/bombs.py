"""Batches of a few kilobytes that would take much memory, or can't be read, in logs of the embedded broker."""

from __future__ import annotations

import time
from functools import cache

from kshare.protocol.compression import Compression
from kshare.protocol.record_builder import BatchBuilder
from kshare.testing import Broker

MIB = 1 << 20


@cache
def bomb(size: int, compression: Compression = Compression.ZSTD) -> bytes:
    """One record of zeros, written now: retention would remove older ones."""
    batch = BatchBuilder(compression=compression)
    batch.append(bytes(size), timestamp=time.time_ns() // 1_000_000)
    return bytes(batch.build())


@cache
def many_headers(count: int, more: tuple[tuple[str, bytes | None], ...] = ()) -> bytes:
    """One record with so many headers without a value, and then these: three bytes each, before compression."""
    batch = BatchBuilder(compression=Compression.ZSTD)
    headers: list[tuple[str, bytes | None]] = [("h", None)] * count
    batch.append(None, timestamp=time.time_ns() // 1_000_000, headers=[*headers, *more])
    return bytes(batch.build())


@cache
def many_records(count: int) -> bytes:
    """So many records with nothing in them."""
    batch, now = BatchBuilder(compression=Compression.ZSTD), time.time_ns() // 1_000_000
    for _ in range(count):
        batch.append(None, timestamp=now)
    return bytes(batch.build())


def damaged() -> bytes:
    """One record, in a batch whose last byte was changed, as a bad disk might do it."""
    data = bytearray(bomb(1, Compression.NONE))
    data[-1] ^= 1
    return bytes(data)


def append(broker: Broker, topic: str, data: bytes, partition: int = 0) -> None:
    """As if it had been in the log: producers could do it on a real broker, which doesn't decompress such batches."""

    def write() -> None:
        log, now = broker.state.cluster.partition(topic, partition).log, broker.state.clock.now()
        log.append(data, now=now, leader_epoch=0, from_client=False)

    broker.call(write)
