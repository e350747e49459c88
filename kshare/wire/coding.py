"""Encodings of bytes as text, for `kshare decode` and `kshare encode`."""

from __future__ import annotations

from enum import StrEnum


class Coding(StrEnum):
    """An encoding of bytes."""

    HEX = "hex"
    BASE64 = "base64"
    ESCAPED = "escaped"
    BINARY = "binary"
