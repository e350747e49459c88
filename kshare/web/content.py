"""How the bytes of a record are shown: JSON laid out, text, or hex, and cut if they are long.

Decides what is visible: control characters, and signs that change the direction of text, are written as escapes.
"""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass

from kshare.log_text import escaped_lines

VIEWS = {"auto": "JSON, text or hex", "text": "text", "hex": "hex", "registry": "schema registry"}
LIST_LIMIT, PAGE_LIMIT = 4 << 10, 1 << 20
"""How many bytes of a value are shown in a list, and on a record's own page."""
_HEX_SHARE = 4
"""Hex takes several signs for each byte."""
_ROW = 16


@dataclass(frozen=True, slots=True)
class Content:
    text: str
    size: int
    """Of all bytes."""
    is_cut: bool
    note: str = ""
    """Which schema it has, or why it couldn't be decoded."""


def content(data: bytes, view: str, limit: int) -> Content:
    text = None if view == "hex" else _text(data, limit, is_lenient=view == "text")
    if text is None:
        shown = data[: limit // _HEX_SHARE]
        return Content(_hex(shown), len(data), len(shown) < len(data))
    if view == "auto" and text[:1] in ("{", "[") and len(data) <= limit and (laid := laid_out(text, limit)):
        return Content(visible(laid[:limit]), len(data), len(laid) > limit)
    return Content(visible(text), len(data), len(data) > limit)


def laid_out(text: str, limit: int) -> str | None:
    """JSON with indentation, a little more than `limit` of it; None if it isn't JSON. Nested values could get huge."""
    try:
        return encoded(json.loads(text), limit)
    except (ValueError, RecursionError):
        return None


def encoded(value: object, limit: int) -> str:
    parts, size = [], 0
    for part in json.JSONEncoder(indent=2, ensure_ascii=False, default=str).iterencode(value):
        parts.append(part)
        size += len(part)
        if size > limit:
            break
    return "".join(parts)


def visible(text: str) -> str:
    text = escaped_lines(text)
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() or sign in "\n\t" else sign.encode("unicode_escape").decode()
        for sign in text
    )


def _text(data: bytes, limit: int, *, is_lenient: bool) -> str | None:
    """None if it isn't text. A sign that is cut in two is left out."""
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace" if is_lenient else "strict")
    try:
        text = decoder.decode(data[:limit], final=len(data) <= limit)
    except UnicodeDecodeError:
        return None
    return text if is_lenient or all(sign.isprintable() or sign in "\n\r\t" for sign in text) else None


def _hex(data: bytes) -> str:
    return "\n".join(
        f"{at:08x}  {data[at : at + _ROW].hex(' '):{3 * _ROW - 1}}  {_letters(data[at : at + _ROW])}"
        for at in range(0, len(data), _ROW)
    )


def _letters(data: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)
