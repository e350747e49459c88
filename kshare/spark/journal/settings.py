"""Where a query's journal is, and how much may be staged in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

TOPIC_PREFIX = "kshare-journal-"
"""`kshare groups describe` and `kshare spark journal` find journals by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """A journal of a streaming query. Durations are in seconds."""

    topic: str
    """The journal's topic, unless it is in a folder."""
    folder: Path | None = None
    max_records: int = 1_000_000
    """How many records may be staged: accepted, and in no micro-batch yet."""
    max_bytes: int = 1 << 30
    """Their size, as brokers sent them."""
    max_age: float = 600.0
    """Nothing more is acquired while the oldest staged record is older."""

    @property
    def place(self) -> str:
        return f"topic {self.topic}" if self.folder is None else f"folder {self.folder}"
