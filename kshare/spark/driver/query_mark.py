"""The mark of a query: what is known of it outside of its checkpoint.

A checkpoint can be lost, or be restored from an older copy, and says nothing of what happened after its newest token.
The mark says which micro-batch was begun last, and which records of earlier ones aren't known to be accepted. It is a
text, short enough for what a consumer group keeps with an offset.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from kshare.admin.committed_texts import LONGEST
from kshare.spark.driver.offset_sets import OffsetSet, spans_of
from kshare.spark.ranges import RecordRange, TokenError, pack_ranges, unpack_ranges

_FORMAT = 1
_NAME = ".kshare-spark."


@dataclass(frozen=True, slots=True)
class QueryMark:
    """Numbers of micro-batches are those of tokens."""

    begun: int
    """Micro-batches up to this one may have been read by Spark, so that a sink may know their numbers."""
    covered: int
    """Of micro-batches up to this one, `owed` has all records that may be redelivered."""
    owed: tuple[RecordRange, ...] | None
    """None: unknown, because there are too many ranges."""
    beat: int = field(default=0, compare=False)
    """The time in milliseconds at which a query that runs stored this; 0 if the query was stopped."""

    def to_text(self) -> str:
        text = self._with(self.owed)
        return text if len(text.encode()) <= LONGEST else self._with(None)

    def _with(self, owed: tuple[RecordRange, ...] | None) -> str:
        value = {
            "kshare": _FORMAT,
            "begun": self.begun,
            "covered": self.covered,
            "beat": self.beat,
            "topics": {range_.topic_id: range_.topic for range_ in owed or ()},
            "owed": None if owed is None else pack_ranges(owed),
        }
        return json.dumps(value, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> QueryMark | None:
        """None for anything that `to_text` doesn't write."""
        try:
            value = json.loads(text)
        except ValueError:
            return None
        if not isinstance(value, Mapping) or value.get("kshare") != _FORMAT:
            return None
        begun, covered, beat = (value.get(name) for name in ("begun", "covered", "beat"))
        topics, owed = value.get("topics"), value.get("owed")
        if not isinstance(begun, int) or not isinstance(covered, int) or not isinstance(beat, int):
            return None
        if not isinstance(topics, Mapping):
            return None
        try:
            ranges = None if owed is None else tuple(unpack_ranges(topics, owed, "owed"))
        except TokenError:
            return None
        return cls(begun, covered, ranges, beat)

    def still_owed(self, spans: OffsetSet, batch: int) -> OffsetSet:
        """Those of these spans, which micro-batches up to `batch` have emitted, that may be redelivered."""
        if self.owed is None or self.covered < batch:
            return spans
        return spans.common(spans_of(self.owed))


def mark_group(group: str, member: str) -> str:
    """The consumer group that keeps the mark of the query with this member id in this share group."""
    return f"{group}{_NAME}{member}"


def member_of(mark_group_: str, group: str) -> str | None:
    """The member id of the query whose mark this consumer group keeps; None for other groups."""
    prefix = mark_group(group, "")
    return mark_group_.removeprefix(prefix) if mark_group_.startswith(prefix) else None
