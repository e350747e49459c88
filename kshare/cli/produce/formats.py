"""Input formats and codecs of `kshare produce`. Imports little, so that help and completion are fast."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from kshare.producer.settings import CompressionName


class InputFormat(StrEnum):
    """What one record is in the input."""

    LINES = "lines"
    JSON = "json"
    WHOLE = "whole"


class Codec(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"

    @property
    def compression(self) -> CompressionName | None:
        """As producers call it."""
        return None if self is Codec.NONE else cast("CompressionName", self.value)
