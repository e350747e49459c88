"""Converts hex dumps by other programs (xxd, hexdump -C, od -t x1, Wireshark) to bytes.

A text is recognized as a dump by its offsets: each must equal the number of bytes above it.
"""

from __future__ import annotations

import re

_LINE = re.compile(r"([0-9a-f]{4,16}):?(?:\s+(.*))?", re.IGNORECASE)
_ROW = re.compile(r"(?:[0-9a-f]{2}){1,8}(?: {1,2}(?:[0-9a-f]{2}){1,8})*", re.IGNORECASE)
_WORDS = re.compile(r"[0-9a-f]{7}(?:\s+[0-9a-f]{4})*", re.IGNORECASE)
"""Lines of plain hexdump and of od -x: little-endian words, whose second byte comes first in memory."""
_GUTTER = re.compile(r"(?<!\s)\s+[|>].*$")
_GAPS = ("  ", "   ")
"""What separates the bytes from the text beside them, unless bars enclose it. Some use two spaces between bytes."""
_HEX, _OCTAL = 16, 8
_REPEATED = "*"
"""Stands for repetitions of the row above."""
MAX_DUMP = 256 * 1024 * 1024


def from_dump(text: str, most: int = MAX_DUMP) -> bytes | None:
    """The bytes of a dump; None if the text isn't one, or repeats rows beyond `most` bytes."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) < 2 and ":" not in text:
        return None
    for base in (_HEX, _OCTAL):
        for gap in _GAPS:
            data = _read(lines, gap, base, most)
            if data:
                return data
    return None


def _read(lines: list[str], gap: str, base: int, most: int) -> bytes | None:
    data = bytearray()
    first: int | None = None
    row = b""
    is_repeated = False
    is_words = all(_WORDS.fullmatch(line) for line in lines if line != _REPEATED)
    for line in lines:
        if line == _REPEATED:
            is_repeated = True
            continue
        found = _LINE.fullmatch(line)
        offset = _number(found[1], base) if found else None
        if found is None or offset is None:
            return None
        first = offset if first is None else first
        above = offset - first
        if is_repeated and row and above <= most:
            data += row * ((above - len(data)) // len(row))
            is_repeated = False
        if above == len(data) - 1 and is_words and not found[2]:
            data.pop()  # the last word has only one byte
        if above != len(data):
            return None
        if found[2]:
            inner = _GUTTER.sub("", found[2]).partition(gap)[0].rstrip()
            if not _ROW.fullmatch(inner):
                return None
            row = _in_memory(bytes.fromhex(inner)) if is_words else bytes.fromhex(inner)
            data += row
    return bytes(data)


def _in_memory(words: bytes) -> bytes:
    swapped = bytearray(len(words))
    swapped[::2], swapped[1::2] = words[1::2], words[::2]
    return bytes(swapped)


def _number(digits: str, base: int) -> int | None:
    try:
        return int(digits, base)
    except ValueError:
        return None
