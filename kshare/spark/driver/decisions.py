"""What is to be acknowledged, as `Custody` or the user has decided: now, or after a delay.

Never reads a clock; times are passed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kshare.spark.driver.offset_sets import OffsetSet, PartitionRange

Verdict = Literal["reject", "release"]
Verdicts = Mapping[Verdict, Sequence[PartitionRange]]
"""The user's decisions for single rows."""
Delayed = tuple[PartitionRange, int]
"""Released rows, and how often they have been delivered."""

_LONGEST_S = 30.0
"""Waiting rows count as locked, and the group delivers only a limited number of records beyond them."""


@dataclass(slots=True)
class Decisions:
    """What to acknowledge now, if it is still held."""

    accept: list[PartitionRange] = field(default_factory=list)
    release: list[PartitionRange] = field(default_factory=list)
    reject: list[PartitionRange] = field(default_factory=list)
    release_later: list[Delayed] = field(default_factory=list)
    """Rows that the user has released."""

    def __bool__(self) -> bool:
        return bool(self.accept or self.release or self.reject or self.release_later)


class DelayedReleases:
    """Rows that the user released, and that are kept locked for a while before they are.

    A released record is redelivered at once, and each delivery counts: in a group with one consumer, a row that is
    released again and again would reach the group's delivery limit within seconds. So it waits, longer with each
    delivery. If the process ends before, the broker releases these rows with its session.

    `first_s`: the delay after the first delivery. It doubles with each further one.
    """

    def __init__(self, first_s: float) -> None:
        self._first_s = first_s
        self._due: dict[float, OffsetSet] = {}

    @property
    def total(self) -> int:
        """The number of rows that are waiting."""
        return sum(spans.total for spans in self._due.values())

    def add(self, rows: Iterable[Delayed], now: float) -> None:
        for span, deliveries in rows:
            longest = max(self._first_s, _LONGEST_S)
            delay = min(self._first_s * 2 ** min(deliveries - 1, 20), longest)
            self._due.setdefault(now + delay, OffsetSet()).add(span)

    def remove(self, span: PartitionRange) -> None:
        """These were redelivered, since their lock was lost: they are no longer waiting."""
        for spans in self._due.values():
            spans.remove(span)

    def take_due(self, now: float) -> list[PartitionRange]:
        """The rows to release now."""
        due = [time for time in self._due if time <= now]
        return [span for time in due for span in self._due.pop(time)]
