r"""Reads the input of `kshare decode`: an argument, a file, standard input; raw, hex, base64 or escaped.

The encoding is guessed unless it is given. Hex has priority over base64: `deadbeef` could be either.
"""

from __future__ import annotations

import ast
import base64
import binascii
import mmap
import re
from pathlib import Path
from textwrap import shorten

from kshare.cli.decode.hex_dump import from_dump
from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.standard_input import piped_input, standard_input

Buffer = bytes | mmap.mmap

_HEX = re.compile(r"(?:0x)?[0-9a-f]+(?:[\s:,]+(?:0x)?[0-9a-f]+)*", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_NOT_TEXT = re.compile(rb"[^\t\n\r\x20-\x7e]")
_LOOK = 4096
_FORMS = "hex, base64 or an escaped string"
_SHOWN = 80
_LET_GO_EVERY = 16 * 1024 * 1024
"""A multiple of the page size of every system."""


def read_input(source: str | None, coding: str | None) -> Buffer:
    """`source` is a file's name, `-` for standard input, or the bytes themselves as text."""
    if source is None or source == "-":
        hint = "no input: give bytes as text or a file name, or pipe bytes in"
        piped = piped_input(hint) if source is None else standard_input()
        data: Buffer = piped.buffer.read()
    elif _exists(source):
        data = _map(Path(source))
    elif coding is None and _coding_of(source.strip()) is None:
        raise Failure(f"{shorten(source, _SHOWN)!r}: no such file, and it isn't {_FORMS}")
    else:
        return _whole(from_text(source, coding), source)
    _whole(data, source)
    if coding == "binary" or (coding is None and _NOT_TEXT.search(data[:_LOOK])):
        return data
    try:
        text = bytes(data).decode("ascii")
    except UnicodeDecodeError as problem:
        if coding is None:
            return data
        raise Failure(f"byte {problem.start} is not text, so this is not {coding}") from None
    return _whole(from_text(text, coding), source)


def let_go(data: memoryview, start: int, end: int) -> None:
    """Nothing before `end` will be read again. Now and then, this releases the memory of a mapped file up to there."""
    done = min(end, len(data)) // _LET_GO_EVERY * _LET_GO_EVERY
    if start < done and isinstance(data.obj, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        data.obj.madvise(mmap.MADV_DONTNEED, 0, done)


def from_text(text: str, coding: str | None) -> bytes:
    text = text.strip()
    match coding or _coding_of(text):
        case "hex":
            return _from_hex(text)
        case "base64":
            return _from_base64(text)
        case "escaped":
            return _from_escaped(text)
        case "binary":
            raise Failure("binary input must be in a file or on standard input")
    raise Failure(f"this isn't {_FORMS}")


def _exists(source: str) -> bool:
    try:
        return Path(source).exists()
    except (OSError, ValueError):  # too long for a file name, or with null bytes
        return False


def _map(path: Path) -> Buffer:
    """Map a file instead of reading it: a broker's segment has a gigabyte."""
    with path.open("rb") as file:
        if not path.is_file():  # a pipe made by the shell: <(...)
            return file.read()
        if path.stat().st_size == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _whole(data: Buffer, source: str | None) -> Buffer:
    if not len(data):
        raise Failure(f"{source or 'standard input'}: no bytes at all")
    return data


def _coding_of(text: str) -> str | None:
    if _HEX.fullmatch(text) or from_dump(text) is not None:
        return "hex"
    if "\\" in text or text[:2] in ("b'", 'b"'):
        return "escaped"
    return "base64" if _BASE64.fullmatch("".join(text.split())) else None


def _from_hex(text: str) -> bytes:
    dumped = from_dump(text)
    if dumped is not None:
        return dumped
    digits = re.sub(r"0x|[\s:,]+", "", text, flags=re.IGNORECASE)
    if len(digits) % 2:
        raise Failure(f"hex needs an even number of digits, not {len(digits)}")
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise Failure("this is not hex") from None


def _from_base64(text: str) -> bytes:
    packed = "".join(text.split()).replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(packed + "=" * (-len(packed) % 4), validate=True)
    except binascii.Error:
        raise Failure("this is not base64") from None


def _from_escaped(text: str) -> bytes:
    is_literal = text[:2] in ("b'", 'b"')
    quoted = text[:1] in ("'", '"') and text[-1:] == text[:1]
    inner = text.strip(text[0]) if quoted else text
    literal = text if is_literal else 'b"' + re.sub(r'(?<!\\)((?:\\\\)*)"', r'\1\\"', inner) + '"'
    try:
        value = ast.literal_eval(literal)
    except (SyntaxError, ValueError):
        raise Failure(r"this is not a string of \x escapes") from None
    return bytes(value)
