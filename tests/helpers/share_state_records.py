"""Records of `__share_group_state`, as a broker writes them."""

from __future__ import annotations

import struct

from kshare.protocol.message import Message
from kshare.protocol.messages import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue
from kshare.protocol.messages import share_snapshot_value as snapshot_rows
from kshare.protocol.messages import share_update_value as update_rows
from kshare.state.share_records import (
    SharePartitionKey,
)

WHERE = SharePartitionKey("orders", bytes(range(16)), 3)


Rows = list[tuple[int, int, int, int]]


def packed(kind: int, message: Message) -> bytes:
    return struct.pack(">h", kind) + message.encode(0)


def snapshot(epoch: int, start: int, rows: Rows) -> tuple[bytes, bytes]:
    value = ShareSnapshotValue(
        snapshot_epoch=epoch,
        start_offset=start,
        state_batches=[snapshot_rows.StateBatch(*row) for row in rows],
    )
    return packed(0, ShareSnapshotKey(*WHERE)), packed(0, value)


def update(epoch: int, start: int, rows: Rows) -> tuple[bytes, bytes]:
    value = ShareUpdateValue(
        snapshot_epoch=epoch,
        start_offset=start,
        state_batches=[update_rows.StateBatch(*row) for row in rows],
    )
    return packed(1, ShareUpdateKey(*WHERE)), packed(0, value)
