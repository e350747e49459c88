"""Formats the value of a span, and names its style and its place, the same in all views."""

from __future__ import annotations

import json
from collections.abc import Iterable

from kshare.dissect import ByteSpan
from kshare.traffic.exchange_text import StyledText

_STYLES = {
    "string": "text",
    "uuid": "id",
    "bytes": "bytes",
    "compressed records": "bytes",
    "length": "faint",
    "count": "faint",
    "presence": "faint",
    "size": "faint",
    "tag": "faint",
    "unread": "error",
}
FRAMING = ("length", "count", "presence")
"""Kinds of spans that frame a value. Trees leave them out."""
_PREVIEW = 24
_LONGEST = 1000


def style_of(span: ByteSpan) -> str:
    return "error" if span.problem else _STYLES.get(span.kind, "number")


def value_text(span: ByteSpan) -> str:
    """The value on one line. Bytes are shown as text if they are printable, otherwise as hex, shortened if long."""
    value = span.value
    if isinstance(value, memoryview):
        return _bytes_text(value)
    if isinstance(value, str):
        return value if span.kind == "uuid" else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)


def parent_and_name(leaf: ByteSpan) -> tuple[str, str]:
    """The path of its parent, and its name there. A length is listed with the field that it belongs to."""
    parent, _, name = leaf.path.rpartition(".")
    if leaf.kind in FRAMING and parent:
        parent, _, owner = parent.rpartition(".")
        name = f"{owner}.{name}"
    return parent, name


def note_or_problem(span: ByteSpan) -> str:
    """The problem, or else the note."""
    return span.problem or span.note


def _bytes_text(value: memoryview) -> str:
    try:
        text = bytes(value).decode()
    except UnicodeDecodeError:
        text = ""
    if text.isprintable() and (text or not value):
        return json.dumps(text, ensure_ascii=False)
    more = f"… ({len(value)} bytes)" if len(value) > _PREVIEW else ""
    return bytes(value[:_PREVIEW]).hex(" ", 4) + more


def page_text(text: str) -> str:
    """Cut so that a page can show it, whatever it was made of."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def page_line(parts: Iterable[StyledText]) -> list[StyledText]:
    return [(page_text(text), style) for text, style in parts]
