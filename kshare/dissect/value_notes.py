"""Meanings of numbers: names of error codes, APIs, acknowledgement types and so on, shown next to values.

Never rejects a value: a number without a name has an empty note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from .fields import codes

Explain = Callable[[int], str]

_NAMES: Mapping[str, Mapping[int, str]] = {
    "apiKey": codes.APIS,
    "requestApiKey": codes.APIS,
    "acknowledgeTypes": codes.ACKNOWLEDGE_TYPES,
    "shareAcquireMode": {0: "batch-optimized", 1: "record-limit"},
    "deliveryState": {0: "available", 2: "acknowledged", 4: "archived"},
    "keyType": {0: "group", 1: "transaction", 2: "share"},
    "isolationLevel": {0: "read uncommitted", 1: "read committed"},
}
_COMPRESSION = {0: "no compression", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_CONTROL_TYPES = {
    0: "abort",
    1: "commit",
    2: "leader change",
    3: "snapshot header",
    4: "snapshot footer",
    5: "raft version",
    6: "raft voters",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def explain(field: str, type_name: str) -> Explain | None:
    """The function that explains the values of a field; None if they have no names."""
    if type_name == "int16" and (field == "errorCode" or field.endswith("ErrorCode")):
        return error_name
    names = _NAMES.get(field)
    return (lambda value: names.get(value, "")) if names else None


def error_name(code: int) -> str:
    return codes.ERRORS.get(code, "")


def control_type(number: int) -> str:
    return _CONTROL_TYPES.get(number, "")


def moment(milliseconds: int) -> str:
    """A Kafka timestamp as UTC; -1 means none."""
    if milliseconds == -1:
        return "no timestamp"
    try:
        return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")
    except OverflowError:
        return "out of range for a date"


def batch_attributes(bits: int) -> str:
    notes = [_COMPRESSION.get(bits & 7, f"unknown compression {bits & 7}")]
    notes.append("log append time" if bits & 8 else "create time")
    flags = {16: "transactional", 32: "control", 64: "delete horizon"}
    notes += [name for bit, name in flags.items() if bits & bit]
    if bits & ~0x7F:
        notes.append(f"unknown bits {bits & 0xFF80:#x}")
    return ", ".join(notes)
