"""Where a query's journal is, and how much may be staged in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

TOPIC_PREFIX = "kshare-journal-"
"""`kshare groups describe` and `kshare spark journal` find journals by it."""

_LONGEST = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """A journal of a streaming query. Durations are in seconds."""

    topic: str | None = None
    """The journal's topic, unless it is in a folder. By default, each query has one: see `usual_topic`."""
    folder: Path | None = None
    max_records: int = 1_000_000
    """How many records may be staged: accepted, and in no micro-batch yet."""
    max_bytes: int = 1 << 30
    """Their size, as brokers sent them."""
    max_age: float = 600.0
    """Nothing more is acquired while the oldest staged record is older."""


def usual_topic(group: str, member: str) -> str:
    """Every query has a member id of its own. Topics must not have all characters that groups may have."""
    return f"{_beginning(group)}{member}"


def is_usual_topic(topic: str, group: str) -> bool:
    """Whether a journal of this group may have this name, as a query of it chose it."""
    beginning = _beginning(group)
    return topic.startswith(beginning) and "." not in topic.removeprefix(beginning)


def _beginning(group: str) -> str:
    return f"{TOPIC_PREFIX}{re.sub('[^a-zA-Z0-9._-]', '_', group)[:_LONGEST]}."
