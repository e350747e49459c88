"""Decodes records of Kafka's internal topics, such as ShareSnapshot and ShareUpdate.

A record counts as one of them if its key decodes completely, and its value decodes too or is a tombstone. Other records
are left as they are.
"""

from __future__ import annotations

from functools import cache

from kshare.dissect import ByteSpan, Dissection, DissectionLimit, dissect_versioned
from kshare.dissect.fields import index
from kshare.dissect.table import message


def explain_records(reading: Dissection, limit: DissectionLimit) -> None:
    """Attach decoded keys and values to their spans, in the same way as unpacked records."""
    waiting = [reading.root]
    for span in waiting:
        if span.kind == "record":
            _explain(span, limit)
        waiting.extend(span.parts)
        if span.inflated:
            waiting.append(span.inflated.root)


def _explain(record: ByteSpan, limit: DissectionLimit) -> None:
    key, value = (_content(record, name) for name in ("key", "value"))
    name = _keys().get(int.from_bytes(key.raw[:2], "big")) if key else None
    if key is None or name is None:
        return
    inner_key = dissect_versioned(name, key.raw, limit=limit)
    value_name = name.removesuffix("Key") + "Value"
    inner_value = dissect_versioned(value_name, value.raw, limit=limit) if value else None
    if inner_key.problems or (inner_value and inner_value.problems):
        return
    _hang(key, inner_key)
    if value and inner_value:
        _hang(value, inner_value)


def _content(record: ByteSpan, name: str) -> ByteSpan | None:
    """The bytes without their length; None if null or absent."""
    for part in record.parts:
        if part.name == name and part.kind == "bytes":
            return next((inner for inner in part.parts if inner.kind == "bytes"), None)
    return None


def _hang(span: ByteSpan, inner: Dissection) -> None:
    for _, part in inner.root.walk():
        part.path = f"{span.path}.{part.path}" if part.path else span.path
    span.note = inner.message
    span.inflated = inner


@cache
def _keys() -> dict[int, str]:
    """Record types, and the messages of their keys."""
    return {
        number: name
        for name in index.MODULES
        if name.endswith("Key") and (number := message(name).api_key) is not None
    }
