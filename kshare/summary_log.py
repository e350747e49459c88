"""Rate-limited logging: the first event of a kind is logged at once, further ones are counted and summarized.

A kind is a cause, plus a partition if it concerns records. Each kind is logged at most once in `INTERVAL_S` seconds.
What was counted is logged with the next event of its kind after that time, by `log_due`, which the owner calls
periodically, or by `close`: the sums are complete.

`Summaries` decides what to log and when, with times passed in. `SummaryLog` writes to a logger, from any thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from types import MappingProxyType
from typing import NamedTuple

from kshare.log_text import escaped
from kshare.surroundings import monotonic

INTERVAL_S = 10.0
MAX_KEYS = 1000
"""The maximum number of kinds that are counted separately. Further ones share one sum, so memory stays bounded."""


LogFields = Mapping[str, object]
_NO_FIELDS: LogFields = MappingProxyType({})


class SummaryKey(NamedTuple):
    """A kind of event, which is logged in separate lines."""

    level: int
    cause: str
    place: str | None = None
    """A partition, as orders[0]; None if the event doesn't concern records."""


@dataclass(slots=True)
class _Sum:
    logged_at: float
    count: int = 0
    first: int | None = None
    last: int | None = None
    detail: str = ""
    fields: LogFields = field(default_factory=dict)

    def add(self, count: int, first: int | None, last: int | None, detail: str, fields: LogFields) -> None:
        self.count += count
        self.detail, self.fields = detail, fields
        if first is not None and last is not None:
            self.first = first if self.first is None else min(self.first, first)
            self.last = last if self.last is None else max(self.last, last)

    def take(self, key: SummaryKey, now: float) -> LogLine:
        """Its log line. Resets the counts."""
        text = _event_text(key, self) if key.place is None else _records_text(key, self)
        self.logged_at, self.count, self.first, self.last = now, 0, None, None
        return LogLine(key.level, text, self.fields)


class LogLine(NamedTuple):
    level: int
    text: str
    fields: LogFields = _NO_FIELDS
    """Those of the latest event."""


class Summaries:
    def __init__(self) -> None:
        self._summaries: dict[SummaryKey, _Sum] = {}

    def __len__(self) -> int:
        return len(self._summaries)

    def add(
        self,
        now: float,
        key: SummaryKey,
        count: int = 1,
        first: int | None = None,
        last: int | None = None,
        detail: str = "",
        fields: LogFields = _NO_FIELDS,
    ) -> LogLine | None:
        """The line to log now, if this kind is due; `first` and `last` are offsets."""
        found = self._summaries.get(key)
        if found is None:
            if len(self._summaries) >= MAX_KEYS:
                self._forget_quiet(now)
            if len(self._summaries) >= MAX_KEYS:
                place = None if key.place is None else "other partitions"
                key = SummaryKey(key.level, "too many different causes to log each", place)
                first = last = None
            found = self._summaries.setdefault(key, _Sum(float("-inf")))
        found.add(count, first, last, detail, fields)
        return found.take(key, now) if now >= found.logged_at + INTERVAL_S else None

    def due(self, now: float) -> list[LogLine]:
        """Lines for everything that was counted and is due."""
        lines = [
            counted.take(key, now)
            for key, counted in self._summaries.items()
            if counted.count and now >= counted.logged_at + INTERVAL_S
        ]
        self._forget_quiet(now)
        return lines

    def rest(self, now: float) -> list[LogLine]:
        """Lines for everything that was counted, due or not."""
        return [counted.take(key, now) for key, counted in self._summaries.items() if counted.count]

    def _forget_quiet(self, now: float) -> None:
        for key, counted in list(self._summaries.items()):
            if not counted.count and now >= counted.logged_at + INTERVAL_S:
                del self._summaries[key]


class SummaryLog:
    """Logs to `logger`. Every line starts with the `group`, if one is given.

    `fields` become attributes of the log records, for structured logs. Those of a sum are those of its latest event.
    """

    def __init__(
        self,
        logger: logging.Logger,
        group: str = "",
        clock: Callable[[], float] = monotonic,
        fields: LogFields = _NO_FIELDS,
    ) -> None:
        self._logger = logger
        self._prefix = f"group {group}: " if group else ""
        self._clock = clock
        self._fields = fields
        self._summaries = Summaries()
        # Records of `kshare.sync` are deserialized in the user's thread, which may log, too.
        self._lock = Lock()

    def records(
        self,
        level: int,
        cause: str,
        topic: str,
        partition: int,
        count: int,
        first: int | None = None,
        last: int | None = None,
        detail: str = "",
        fields: LogFields = _NO_FIELDS,
    ) -> None:
        """Counts `count` records of this partition, from offset `first` to `last` if these are known."""
        self._add(SummaryKey(level, cause, f"{topic}[{partition}]"), count, first, last, detail, fields)

    def event(
        self,
        level: int,
        cause: str,
        detail: object = "",
        fields: LogFields | None = None,
        *,
        has_traceback: bool = False,
    ) -> None:
        """Counts an event that may recur; the latest details are logged."""
        key = SummaryKey(level, cause)
        self._add(key, 1, None, None, str(detail), fields or _NO_FIELDS, has_traceback=has_traceback)

    def log_due(self) -> None:
        with self._lock:
            lines = self._summaries.due(self._clock())
        self._log(lines)

    def close(self) -> None:
        """Logs what has been counted."""
        with self._lock:
            lines = self._summaries.rest(self._clock())
        self._log(lines)

    def _add(
        self,
        key: SummaryKey,
        count: int,
        first: int | None,
        last: int | None,
        detail: str,
        fields: LogFields,
        *,
        has_traceback: bool = False,
    ) -> None:
        if not self._logger.isEnabledFor(key.level):
            return
        with self._lock:
            line = self._summaries.add(self._clock(), key, count, first, last, detail, fields)
        if line is not None:
            self._log([line], has_traceback=has_traceback)

    def _log(self, lines: list[LogLine], *, has_traceback: bool = False) -> None:
        for level, text, fields in lines:
            extra = {**self._fields, **fields}
            # Causes and details may contain what users and records say.
            self._logger.log(level, "%s%s", self._prefix, escaped(text), exc_info=has_traceback, extra=extra)


def _records_text(key: SummaryKey, total: _Sum) -> str:
    offsets = ""
    if total.first is not None:
        offsets = (
            f" (offset {total.first})"
            if total.first == total.last
            else f" (offsets {total.first} to {total.last})"
        )
    detail = f": {total.detail}" if total.detail else ""
    if total.count > 1 and offsets and total.first == total.last:
        return f"1 record of {key.place}{offsets}, {total.count:,} times: {key.cause}{detail}"
    noun = "record" if total.count == 1 else "records"
    return f"{total.count:,} {noun} of {key.place}{offsets}: {key.cause}{detail}"


def _event_text(key: SummaryKey, total: _Sum) -> str:
    times = f" ({total.count:,} times, the latest)" if total.count > 1 else ""
    return f"{key.cause}{times}{f': {total.detail}' if total.detail else ''}"
