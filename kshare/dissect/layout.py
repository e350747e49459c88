"""Builds the layout of one message in one version: constructs from the generated tables. Layouts are cached.

Decides which fields a version has and how each is encoded in it. Never reads bytes.
"""

from __future__ import annotations

from functools import lru_cache

from construct import Construct

from .batches import RecordsField
from .constructs import (
    FIXED,
    INTEGERS,
    UNSIGNED_VARINT,
    Array,
    Fields,
    Length,
    Named,
    NullableFields,
    SizedBytes,
    SpanConstruct,
    Tags,
    Text,
)
from .table import Field, Message, message, within
from .value_notes import explain


@lru_cache(maxsize=512)
def layout(name: str, version: int) -> Construct:
    """The construct of a message's body, or of a header."""
    table = message(name)
    return _struct(table, version, table.name, table.fields, table.about, is_nullable=False)


def _struct(
    table: Message, version: int, kind: str, fields: tuple[Field, ...], about: str, *, is_nullable: bool
) -> Construct:
    present = [field for field in fields if within(version, field.versions)]
    plain = [
        Named(field.name, _value(table, version, field))
        for field in present
        if not within(version, field.tagged)
    ]
    known = {
        field.tag: Named(field.name, _value(table, version, field))
        for field in present
        if field.tag is not None and within(version, field.tagged)
    }
    tags = Tags(known) if table.is_flexible(version) else None
    return (NullableFields if is_nullable else Fields)(kind, plain, tags, about)


def _value(table: Message, version: int, field: Field) -> Construct:
    is_compact = within(version, field.flexible or table.flexible)
    is_nullable = within(version, field.nullable)
    item = field.type.removeprefix("[]")
    if item == field.type:
        return _single(table, version, field, item, is_compact=is_compact, is_nullable=is_nullable)
    count = _length("int32", is_compact=is_compact, is_nullable=is_nullable, kind="count")
    element = _single(table, version, field, item, is_compact=is_compact, is_nullable=False)
    return Array(field.type, count, element, field.about)


def _single(
    table: Message, version: int, field: Field, kind: str, *, is_compact: bool, is_nullable: bool
) -> Construct:
    if field.struct is not None:
        return _struct(table, version, kind, field.struct, field.about, is_nullable=is_nullable)
    if kind in FIXED:
        return SpanConstruct(FIXED[kind], kind, field.about, explain(field.name, kind))
    stored = "int16" if kind == "string" else "int32"
    length = _length(stored, is_compact=is_compact, is_nullable=is_nullable)
    return {"string": Text, "bytes": SizedBytes, "records": RecordsField}[kind](length, field.about)


def _length(stored: str, *, is_compact: bool, is_nullable: bool, kind: str = "length") -> Length:
    subcon = UNSIGNED_VARINT if is_compact else INTEGERS[stored]
    return Length(subcon, is_compact=is_compact, is_nullable=is_nullable, kind=kind)
