"""A dissected message in the JSON form of Kafka's own converters.

Decides what the form leaves out: framing, unknown tags, tagged fields with their default value. Fields that couldn't be
read because of an error are left out, too.
"""

from __future__ import annotations

import base64
from typing import Any

from .spans import ByteSpan, Dissection
from .table import Default, Field, message, within

_ZEROS = {"bool": False, "float64": 0.0, "string": "", "bytes": "", "uuid": "A" * 22}


def dissection_json(dissection: Dissection) -> dict[str, Any]:
    """The body's fields by name; empty if reading failed before the body, or there is no body."""
    if dissection.body is None or dissection.version is None or not dissection.message:
        return {}
    table = message(dissection.message)
    return _struct(table.fields, dissection.version, dissection.body)


def _struct(fields: tuple[Field, ...], version: int, span: ByteSpan) -> dict[str, Any]:
    parts = {part.name: part for part in _fields_of(span)}
    form: dict[str, Any] = {}
    for field in fields:
        part = parts.get(field.name)
        if part is None or not _is_shown(part):
            continue
        value = _value(field, version, part)
        if not (within(version, field.tagged) and value == _default(field, version)):
            form[field.name] = value
    return form


def _fields_of(span: ByteSpan) -> list[ByteSpan]:
    """The parts of a struct, with the known tagged fields in place of its tags."""
    fields = []
    for part in span.parts:
        if part.kind == "tags":
            # Skip each tag's number and size: fields may have the same names.
            fields += [inner for tag in part.parts for inner in tag.parts[2:]]
        else:
            fields.append(part)
    return fields


def _is_shown(span: ByteSpan) -> bool:
    """Incomplete structs and arrays are shown if they have parts to show."""
    return span.is_complete or any(part.kind not in ("count", "length", "presence") for part in span.parts)


def _value(field: Field, version: int, span: ByteSpan) -> Any:
    if not field.type.startswith("[]"):
        return _single(field, version, span)
    if span.is_complete and span.value is None:
        return None
    items = [part for part in span.parts if part.kind != "count"]
    return [_single(field, version, item) for item in items if _is_shown(item)]


def _single(field: Field, version: int, span: ByteSpan) -> Any:
    if field.struct is not None:
        first = span.parts[0] if span.parts else None
        is_null = (
            first is not None
            and first.kind == "presence"
            and isinstance(first.value, int)
            and first.value < 0
        )
        return None if is_null else _struct(field.struct, version, span)
    value = span.value
    return base64.b64encode(value).decode() if isinstance(value, memoryview) else value


def _default(field: Field, version: int) -> Any:
    """The default that Kafka's converters compare with. A struct's is null if it is nullable, else its fields' ones."""
    if field.default is not Default.ZERO:
        return field.default
    if field.type.startswith("[]"):
        return []
    if field.struct is not None:
        if within(version, field.nullable):
            return None
        return {
            member.name: _default(member, version)
            for member in field.struct
            if within(version, member.versions) and not within(version, member.tagged)
        }
    return _ZEROS.get(field.type, 0)
