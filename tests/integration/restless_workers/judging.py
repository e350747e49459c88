"""Judges restless workers: their diaries, their dead letters and those of the brokers, and their logs. Pure.

- lost: settled, though it neither succeeded nor became a dead letter
- archived untried: the brokers archived it at the limit of deliveries, and no function was called for it
- archived without a word: the same, tried or not, and no line of a log says so. A worker looks at the limits of its
  group every ten seconds: shortly after the limit of deliveries was lowered, any line that names the record is enough,
  or one that stands for several and names only one of them
- buried untried: a dead letter of the worker's, and no function was called for it
- left: not settled at the end
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.integration.worker_storm.diary import Entry, Event

PROBLEMS = ("lost", "archived untried", "archived without a word", "buried untried", "left")
Place = tuple[str, int, int]
"""Topic, partition, offset."""
_REJECTED = "Offset rejected by client."
"""What a broker's dead letter says of a record that the worker has rejected, after keeping its own dead letter."""
_SUM = " times, the latest): "
"""In a line that stands for several, and names the last record only."""
_LOOK_S = 12.0
"""How long after a change workers know all limits."""
_NAMED = re.compile(r"([^\s(]+)\[(\d+)\](?:@(\d+)| \(offsets? (\d+)(?: to (\d+))?\))")


@dataclass
class Judgement:
    written: Mapping[Place, int]
    """The number that each record has as its value."""
    entries: Sequence[Entry]
    letters: Sequence[int]
    """The numbers of the worker's dead letters in a topic."""
    archived: Mapping[Place, str]
    """What the brokers' dead letters say."""
    logs: Iterable[str]
    left: int
    archived_at: Mapping[Place, float] = field(default_factory=dict)
    """When the brokers wrote these, in seconds since 1970."""
    lowered: Sequence[float] = ()
    """When the limit of deliveries was lowered."""
    problems: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        by_event: dict[Event, set[int]] = defaultdict(set)
        for entry in self.entries:
            by_event[entry.event].add(entry.number)
            self.counts[f"functions: {entry.event}"] += 1
        began, buried = by_event[Event.BEGAN], by_event[Event.BURIED] | set(self.letters)
        logs = [*self.logs]
        named, mentioned = _named(logs, "archive"), _named(logs, "")
        has_sums = any(_SUM in log for log in logs)
        # Several places may have a record: retry topics have copies of it.
        ended = by_event[Event.SUCCEEDED] | buried
        ended |= {number for place, number in self.written.items() if self._is_archived(place)}
        for place, number in self.written.items():
            text = f"{number} ({place[0]}[{place[1]}]@{place[2]})"
            if self._is_archived(place):
                self.counts["archived by brokers"] += 1
                if number not in began:
                    self.problems["archived untried"].append(f"{text}: {self.archived[place]}")
                if _is_in(place, named):
                    continue
                if self._was_lowered_before(place) and (_is_in(place, mentioned) or has_sums):
                    self.counts["archived by a limit that workers didn't know yet"] += 1
                else:
                    self.problems["archived without a word"].append(f"{text}: {self.archived[place]}")
            elif number not in ended:
                self.problems["lost"].append(text)
        self.problems["buried untried"] += map(str, sorted(buried - began))
        if self.left:
            self.problems["left"].append(f"{self.left} records")
        self.counts["written"] = len(self.written)
        self.counts["succeeded"] = len(by_event[Event.SUCCEEDED])
        self.counts["dead letters of the worker"] = len(buried)

    def _is_archived(self, place: Place) -> bool:
        return self.archived.get(place, _REJECTED) != _REJECTED

    def _was_lowered_before(self, place: Place) -> bool:
        archived_at = self.archived_at.get(place, 0.0)
        return any(0 <= archived_at - at <= _LOOK_S for at in self.lowered)


def _named(logs: Iterable[str], word: str) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """The offsets that lines with this word name, by topic and partition."""
    found: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for log in logs:
        for line in log.splitlines():
            if word in line:
                for topic, number, at, first, last in _NAMED.findall(line):
                    low = int(at or first)
                    found[topic, int(number)].append((low, int(last or low)))
    return found


def _is_in(place: Place, named: Mapping[tuple[str, int], list[tuple[int, int]]]) -> bool:
    return any(first <= place[2] <= last for first, last in named.get(place[:2], ()))
