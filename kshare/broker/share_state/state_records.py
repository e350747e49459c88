"""Records of __share_group_state: snapshot, update or tombstone of a share-partition.

As in Kafka's other topics, keys and values are messages after a version number. That of the key is the record type.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from kshare.broker.share_state.share_state import ShareState, StateUpdate
from kshare.broker.share_state.state_batches import StateBatch
from kshare.protocol.message import Message
from kshare.protocol.messages import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue
from kshare.protocol.messages import share_snapshot_value as snapshot_rows
from kshare.protocol.messages import share_update_value as update_rows
from kshare.protocol.messages import write_share_group_state_request as write_rows
from kshare.protocol.record import Record
from kshare.protocol.record_builder import BatchBuilder

Key = tuple[str, bytes, int]
"""Group, topic id, partition."""

_Row = snapshot_rows.StateBatch | update_rows.StateBatch | write_rows.StateBatch
_SNAPSHOT, _UPDATE = 0, 1
_VERSION = struct.Struct(">h")
_VALUE_VERSION = 0


def snapshot_batch(key: Key, state: ShareState, now: int) -> bytearray:
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start,
        delivery_complete_count=state.settled,
        create_timestamp=state.created,
        write_timestamp=state.written,
        state_batches=[snapshot_rows.StateBatch(*batch) for batch in state.batches],
    )
    return _batch(_SNAPSHOT, ShareSnapshotKey(*key), value, now)


def update_batch(key: Key, state: ShareState, state_update: StateUpdate, now: int) -> bytearray:
    value = ShareUpdateValue(
        snapshot_epoch=state.snapshot_epoch,
        leader_epoch=state_update.leader_epoch,
        start_offset=state_update.start,
        delivery_complete_count=state_update.settled,
        state_batches=[update_rows.StateBatch(*batch) for batch in state_update.batches],
    )
    return _batch(_UPDATE, ShareUpdateKey(*key), value, now)


def tombstone_batch(key: Key, now: int) -> bytearray:
    return _batch(_SNAPSHOT, ShareSnapshotKey(*key), None, now)


def replay(states: dict[Key, ShareState], record: Record) -> Key | None:
    """Apply one record of the topic to `states`. Returns the key of its share-partition."""
    if record.key is None:
        return None
    (kind,) = _VERSION.unpack_from(record.key)
    if kind == _SNAPSHOT:
        key = _key(ShareSnapshotKey.decode(record.key[2:], 0))
        if record.value is None:
            states.pop(key, None)
        else:
            snapshot = ShareSnapshotValue.decode(record.value[2:], *_VERSION.unpack_from(record.value))
            states[key] = _from_snapshot(snapshot)
        return key
    if kind == _UPDATE and record.value is not None:
        key = _key(ShareUpdateKey.decode(record.key[2:], 0))
        update = ShareUpdateValue.decode(record.value[2:], *_VERSION.unpack_from(record.value))
        if key in states and states[key].snapshot_epoch == update.snapshot_epoch:
            states[key] = _updated(states[key], update)
        return key
    return None


def _from_snapshot(value: ShareSnapshotValue) -> ShareState:
    return ShareState(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        list(stored_batches(value.state_batches)),
        created=value.create_timestamp,
        written=value.write_timestamp,
    )


def _updated(state: ShareState, value: ShareUpdateValue) -> ShareState:
    state_update = StateUpdate(
        state.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        stored_batches(value.state_batches),
    )
    return state.after(state_update, state.written)


def stored_batches(rows: Iterable[_Row]) -> tuple[StateBatch, ...]:
    """The batches of a message."""
    return tuple(
        StateBatch(row.first_offset, row.last_offset, row.delivery_state, row.delivery_count) for row in rows
    )


def _key(message: ShareSnapshotKey | ShareUpdateKey) -> Key:
    return message.group_id, message.topic_id, message.partition


def _batch(kind: int, key: Message, value: Message | None, now: int) -> bytearray:
    builder = BatchBuilder()
    encoded = None if value is None else _VERSION.pack(_VALUE_VERSION) + value.encode(_VALUE_VERSION)
    builder.append(encoded, key=_VERSION.pack(kind) + key.encode(0), timestamp=now)
    return builder.build()
