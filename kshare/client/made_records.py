"""Records that no broker has delivered, for tests of code that processes and settles records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kshare.client.record import ShareBatch, ShareRecord, lease_of
from kshare.protocol.acknowledge_types import FINAL, AcknowledgeWord
from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.records import read_batches
from kshare.state.lease import Lease

_TOPIC_ID = bytes(16)


def made_batch(
    topic: str,
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] = (),
    headers: Iterable[tuple[str, bytes | None]] = (),
    partition: int = 0,
    offset: int = 0,
    timestamp: int = 0,
    delivery_count: int = 1,
) -> ShareBatch:
    """A batch that isn't settled yet. Its records have consecutive offsets, and the same headers."""
    builder = BatchBuilder(base_offset=offset)
    for number, value in enumerate(values):
        key = keys[number] if keys else None
        builder.append(value, key=key, headers=list(headers), timestamp=timestamp, offset=offset + number)
    lease = Lease((_TOPIC_ID, partition), offset, offset + len(values) - 1, delivery_count)
    return ShareBatch(topic, lease, list(read_batches(builder.build())))


def made_record(
    topic: str,
    value: bytes | None,
    *,
    key: bytes | None = None,
    headers: Iterable[tuple[str, bytes | None]] = (),
    partition: int = 0,
    offset: int = 0,
    timestamp: int = 0,
    delivery_count: int = 1,
) -> ShareRecord:
    """The only record of such a batch."""
    batch = made_batch(
        topic,
        [value],
        keys=[key],
        headers=headers,
        partition=partition,
        offset=offset,
        timestamp=timestamp,
        delivery_count=delivery_count,
    )
    return next(iter(batch))


def settlement_of(record: ShareRecord) -> AcknowledgeWord | None:
    """How the record was settled; None if it wasn't."""
    lease = lease_of(record.batch)
    return _SETTLEMENTS.get(lease.states[record.offset - lease.first])


_SETTLEMENTS: dict[int, AcknowledgeWord] = {kind: kind.word for kind in FINAL}
