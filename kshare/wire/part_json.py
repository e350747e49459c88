"""Dissections as JSON: bodies in the form of Kafka's converters, which `kshare encode` reads; the rest by span.

Structs become objects, arrays lists, and bytes base64. Fields after a break are left out.
"""

from __future__ import annotations

import base64
from typing import Any

from kshare.dissect import ByteSpan, dissection_json
from kshare.wire.split_input import InputPart
from kshare.wire.value_text import FRAMING


def part_json(input_part: InputPart) -> dict[str, Any]:
    reading = input_part.reading
    form: dict[str, Any] = {
        "kind": input_part.guess.kind,
        "offset": input_part.start,
        "length": reading.root.length,
    }
    if reading.message:
        form |= {"message": reading.message, "version": reading.version}
    if reading.header:
        form["header"] = value_of(reading.header)
    if reading.message:
        form["body"] = dissection_json(reading)
    else:
        form["batches"] = [value_of(part) for part in reading.root.parts]
    form["problems"] = [
        {"path": problem.path, "offset": input_part.start + problem.offset, "reason": problem.reason}
        for problem in reading.problems
    ]
    return form


def span_json(span: ByteSpan, start: int) -> dict[str, Any]:
    """One field, chosen by the user."""
    return {
        "path": span.path,
        "type": span.kind,
        "offset": start + span.offset,
        "length": span.length,
        "value": value_of(span),
        **({"note": span.note} if span.note else {}),
    }


def value_of(span: ByteSpan) -> Any:
    content = next((part for part in span.parts if part.path == span.path and not part.parts), span)
    if content.inflated:
        return _unpacked(content)
    if span.kind.startswith("[]") or span.kind == "records":
        if span.parts and span.value is not None:
            return [value_of(part) for part in span.parts if part.kind not in FRAMING]
        return None
    if span.kind in ("string", "bytes") or not span.parts:
        value = span.value
        return base64.b64encode(value).decode() if isinstance(value, memoryview) else value
    return {part.name: value_of(part) for part in _fields(span)}


def _unpacked(span: ByteSpan) -> Any:
    assert span.inflated is not None
    parts = span.inflated.root.parts
    if span.kind != "bytes":
        return [value_of(part) for part in parts]
    body = span.inflated.body
    form = value_of(body) if body else None
    return {"message": span.inflated.message, "version": span.inflated.version, "body": form}


def _fields(span: ByteSpan) -> list[ByteSpan]:
    """Known tagged fields are treated like the others; lengths and counts are left out."""
    fields = []
    for part in span.parts:
        if part.kind == "tags":
            fields += [
                inner for tag in part.parts for inner in tag.parts if inner.kind not in ("tag", "size")
            ]
        elif part.kind not in FRAMING:
            fields.append(part)
    return [field for field in fields if field.kind not in ("count", "unread")]
