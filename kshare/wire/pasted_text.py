r"""Bytes that were given as text or in a file: raw, hex, base64, escaped, or a hex dump of another program.

The encoding is guessed unless it is given. Hex has priority over base64: `deadbeef` could be either.
"""

from __future__ import annotations

import ast
import base64
import mmap
import re

from kshare.errors import ConfigError
from kshare.wire.hex_dump import MAX_DUMP, from_dump

Buffer = bytes | mmap.mmap

FORMS = "hex, base64 or an escaped string"
_HEX = re.compile(r"(?:0x)?[0-9a-f]++(?:[\s:,]++(?:0x)?[0-9a-f]++)*+", re.IGNORECASE)
"""Possessive: otherwise each separator of a long text would take memory for going back to it."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_LITERALS = re.compile(r"""(?:b'(?:[^'\\]|\\.)*+'\s*+|b"(?:[^"\\]|\\.)*+"\s*+)++""", re.DOTALL)
"""Other expressions that begin like bytes may be nested so deeply that Python can't parse them."""


_NOT_TEXT = re.compile(rb"[^\t\n\r\x20-\x7e]")
_LOOK = 4096
_CHARACTERS = 8
"""As many characters may stand for one byte: `0x00, ` has six."""


def from_file(data: Buffer, coding: str | None = None, most: int = MAX_DUMP) -> Buffer:
    """The bytes in a file, which contains them as they are or as text. Raises ConfigError as `from_text` does."""
    if coding == "binary" or (coding is None and _NOT_TEXT.search(data[:_LOOK])):
        return data
    try:
        text = bytes(data).decode("ascii")
    except UnicodeDecodeError as problem:
        if coding is None:
            return data
        raise ConfigError(f"byte {problem.start} is not text, so this is not {coding}") from None
    return from_text(text, coding, most)


def from_text(text: str, coding: str | None = None, most: int = MAX_DUMP) -> bytes:
    """Raises ConfigError if the text isn't in this encoding, or in none if it is to be guessed.

    `most` limits the bytes: a line of a hex dump can stand for any number of repeated rows.
    """
    if len(text) > _CHARACTERS * most:
        raise ConfigError(
            f"a text of {len(text):,} characters is too long: give a part of it, or a file of bytes"
        )
    text = text.strip()
    match coding or coding_of(text, most):
        case "hex":
            return _from_hex(text, most)
        case "base64":
            return _from_base64(text)
        case "escaped":
            return _from_escaped(text)
        case "binary":
            raise ConfigError("binary input must be in a file or on standard input")
    raise ConfigError(f"this isn't {FORMS}")


def coding_of(text: str, most: int = MAX_DUMP) -> str | None:
    """The encoding of text without spaces around it; None if it is none."""
    if _HEX.fullmatch(text) or from_dump(text, most) is not None:
        return "hex"
    if "\\" in text or text[:2] in ("b'", 'b"'):
        return "escaped"
    return "base64" if _BASE64.fullmatch("".join(text.split())) else None


def _from_hex(text: str, most: int) -> bytes:
    dumped = from_dump(text, most)
    if dumped is not None:
        return dumped
    digits = re.sub(r"0x|[\s:,]+", "", text, flags=re.IGNORECASE)
    if len(digits) % 2:
        raise ConfigError(f"hex needs an even number of digits, not {len(digits)}")
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise ConfigError("this is not hex") from None


def _from_base64(text: str) -> bytes:
    packed = "".join(text.split()).replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(packed + "=" * (-len(packed) % 4), validate=True)
    except ValueError:  # also raised for characters that aren't ASCII
        raise ConfigError("this is not base64") from None


def _from_escaped(text: str) -> bytes:
    is_literal = text[:2] in ("b'", 'b"')
    quoted = text[:1] in ("'", '"') and text[-1:] == text[:1]
    inner = text.strip(text[0]) if quoted else text
    literal = text if is_literal else 'b"' + re.sub(r'(?<!\\)((?:\\\\)*)"', r'\1\\"', inner) + '"'
    try:
        value = ast.literal_eval(literal) if _LITERALS.fullmatch(literal) else None
    except (SyntaxError, ValueError):
        value = None
    if not isinstance(value, bytes):
        raise ConfigError(r"this is not a string of \x escapes")
    return value
