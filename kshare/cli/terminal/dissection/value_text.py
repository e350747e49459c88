"""Formats and colours the value of a span, the same in all views."""

from __future__ import annotations

import json

from kshare.cli.terminal.colours import FAINT, PROBLEM
from kshare.dissect import ByteSpan

_STYLES = {
    "string": "green",
    "uuid": "magenta",
    "bytes": "yellow",
    "compressed records": "yellow",
    "bool": "cyan",
    "length": FAINT,
    "count": FAINT,
    "presence": FAINT,
    "size": FAINT,
    "tag": FAINT,
    "unread": PROBLEM,
}
_PREVIEW = 24


def style_of(span: ByteSpan) -> str:
    return PROBLEM if span.problem else _STYLES.get(span.kind, "cyan")


def value_text(span: ByteSpan) -> str:
    """The value on one line. Bytes are shown as text if they are printable, otherwise as hex, shortened if long."""
    value = span.value
    if isinstance(value, memoryview):
        return _bytes_text(value)
    if isinstance(value, str):
        return value if span.kind == "uuid" else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)


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
