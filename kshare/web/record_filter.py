"""Decides which records a page of records shows. All given criteria must match."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kshare.protocol.record import Record
from kshare.web.fields import milliseconds

_MOST_NAMED = 1_000
"""Headers of one record whose names begin like the wanted one. Others are passed over without a cost."""


@dataclass(frozen=True, slots=True)
class RecordFilter:
    key: bytes = b""
    is_whole_key: bool = False
    """Whether the key must be equal, instead of containing it."""
    header: str = ""
    header_value: bytes | None = None
    text: bytes = b""
    """What the value contains."""
    since: int | None = None
    until: int | None = None
    """Milliseconds since 1970, exclusive."""

    @classmethod
    def of(cls, wanted: Mapping[str, str]) -> RecordFilter:
        header, has_value, value = wanted.get("header", "").partition("=")
        return cls(
            _bytes(wanted.get("key", "")),
            wanted.get("key_how") == "equals",
            header,
            _bytes(value) if has_value else None,
            _bytes(wanted.get("text", "")),
            milliseconds(wanted.get("since", ""), "time from"),
            milliseconds(wanted.get("until", ""), "time to"),
        )

    def wants(self, record: Record) -> bool:
        return (
            (self.since is None or record.timestamp >= self.since)
            and (self.until is None or record.timestamp < self.until)
            and (not self.key or self._has_key(record.key))
            and (not self.header or self._has_header(record))
            and (not self.text or self.text in bytes(record.value or b""))
        )

    def _has_key(self, key: bytes | None) -> bool:
        if key is None:
            return False
        return bytes(key) == self.key if self.is_whole_key else self.key in bytes(key)

    def _has_header(self, record: Record) -> bool:
        return any(
            name == self.header and (self.header_value is None or bytes(value or b"") == self.header_value)
            for name, value in record.some_headers(
                _MOST_NAMED, self.header.encode("utf-8", "surrogateescape")
            )
        )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
