"""What `kshare produce` can be told to read and write. Light, so that help and completion come at once."""

from __future__ import annotations

from enum import StrEnum


class InputFormat(StrEnum):
    """How records are written down."""

    LINES = "lines"
    JSON = "json"
    WHOLE = "whole"


class Codec(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"
