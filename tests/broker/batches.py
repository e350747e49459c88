"""Record batches as producers send them."""

from __future__ import annotations

from kshare.protocol.compression import Compression
from kshare.protocol.record_builder import BatchBuilder


def batch(
    count: int = 1,
    *,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    in_transaction: bool = False,
    timestamp: int = 1000,
    compression: Compression = Compression.NONE,
) -> bytes:
    builder = BatchBuilder(
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=in_transaction,
        compression=compression,
    )
    for number in range(count):
        builder.append(b"value %d" % number, timestamp=timestamp + number)
    return bytes(builder.build())
