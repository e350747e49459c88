"""The runs of one worker's handlers, as they happen: how many at once, in which order, when, and for how long.

- too many at once: more handlers run than `concurrency` allows
- out of order: with `order="key"`, two records of a key are processed at once, or one before another that comes first
- too soon: a record is processed before its delay is over
- begun in a pause: a handler is called after it had paused its topic
- tried too often: more attempts than the retry policy allows
- ran too long: a handler goes on though its time limit is over
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

import anyio

from kshare.worker import Delivery
from tests.integration.consumer_storm.fault_book import Acquired

KINDS = (
    "too many at once",
    "out of order",
    "too soon",
    "begun in a pause",
    "tried too often",
    "ran too long",
)
_LOOK_S = 1.0
"""How late a worker may notice that a time limit is over."""
ONGOING_S = 0.05
"""What has begun to be processed before a pause may be called a little later."""
Lane = tuple[int, bytes | None]


class Begun(NamedTuple):
    """A handler was called for a record of the topic itself."""

    at: float
    partition: int
    offset: int
    delivery_count: int


@dataclass(frozen=True)
class Rules:
    """What the worker was told."""

    topic: str
    concurrency: int
    attempts: int
    delays: Sequence[float]
    time_limit_s: float
    is_ordered: bool
    keeps_delays: Callable[[], bool]
    """Whether nothing has made it process what it holds early, move it, or give it up."""
    has_copies: bool
    """Whether records have copies in retry topics: then deliveries count as attempts, too."""
    counts_all: bool
    """Whether each failure counts as an attempt, as long as the worker isn't stopping. A breaker may say otherwise."""
    pauses_after_s: float
    """What has begun to be processed before a pause may be called so much later."""


@dataclass
class Runs:
    """`now` is the loop's time, `stops` counts how often the process has stood still, `found` takes what is wrong."""

    rules: Rules
    now: Callable[[], float]
    stops: Callable[[], int]
    found: dict[str, list[str]]
    was_redelivered: Callable[[int, int], bool]
    """Whether brokers have delivered the record at this partition and offset of the topic more than once."""
    tried: set[tuple[str, int, int]] = field(default_factory=set)
    """What any worker has begun."""
    begun: list[Begun] = field(default_factory=list)
    is_stopping: bool = False
    """Told to stop: what must not be given back is tried, whatever its delay is."""
    _count: int = 0
    _going: dict[bytes | None, Delivery] = field(default_factory=dict)
    """By key."""
    _held: dict[Lane, tuple[int, int]] = field(default_factory=dict)
    """The offset of what has failed and is held, and its delivery count."""
    _last: dict[Lane, int] = field(default_factory=lambda: defaultdict(lambda: -1))
    _not_before: dict[tuple[str, int, int], float] = field(default_factory=dict)
    _paused: tuple[float, float] = (0.0, 0.0)
    _failures: dict[Any, int] = field(default_factory=dict)
    """How often a handler has failed for a record, since it was delivered."""
    _shielded: set[tuple[str, int, int]] = field(default_factory=set)
    """What can't be cancelled."""

    @contextmanager
    def run(self, deliveries: Sequence[Delivery]) -> Iterator[None]:
        """A handler is called for these."""
        began, stops = self.now(), self.stops()
        self._count += 1
        if self._count > self.rules.concurrency:
            self._wrong("too many at once", f"{self._count} at {began:.3f}")
        for delivery in deliveries:
            self._begin(delivery, began)
        try:
            yield
        finally:
            self._count -= 1
            took = self.now() - began
            is_excused = stops != self.stops() or any(
                _place(delivery) in self._shielded for delivery in deliveries
            )
            if took > self.rules.time_limit_s + _LOOK_S and not is_excused:
                self._wrong("ran too long", f"{deliveries[0]!r}: {took:.1f} s, until {self.now():.3f}")
            if self._going.get(deliveries[0].key) is deliveries[0]:
                del self._going[deliveries[0].key]

    def failed(self, delivery: Delivery) -> None:
        """Its handler is about to raise. One that was cancelled before, as by its time limit, hasn't failed."""
        if anyio.current_effective_deadline() == -inf:
            return
        self._failures[delivery.record] = self._failures.get(delivery.record, 0) + 1
        attempt = delivery.attempt - delivery.unfinished  # the policy counts none without a result
        if attempt < self.rules.attempts:
            delay = self.rules.delays[min(attempt, len(self.rules.delays)) - 1]
            self.delayed(delivery, delay)
            if self.rules.is_ordered:
                self._held[_lane(delivery)] = delivery.offset, delivery.delivery_count

    def delayed(self, delivery: Delivery, delay: float) -> None:
        """It isn't to be processed before."""
        self._not_before[_place(delivery)] = self.now() + delay

    def paused(self, seconds: float) -> None:
        """The handler has paused its topic."""
        now = self.now()
        self._paused = now, max(self._paused[1], now + seconds)

    def shielded(self, delivery: Delivery) -> None:
        """Its handler goes on when it is cancelled."""
        self._shielded.add(_place(delivery))

    def _begin(self, delivery: Delivery, now: float) -> None:
        rules = self.rules
        if delivery.record.topic == rules.topic:
            self.begun.append(Begun(now, delivery.partition, delivery.offset, delivery.delivery_count))
        not_before = self._not_before.pop(_place(delivery), 0.0)
        if now < not_before and rules.keeps_delays() and not self.is_stopping:
            self._wrong("too soon", f"{delivery!r}: at {now:.3f}, {not_before - now:.3f} s before it was due")
        since, until = self._paused
        if since + rules.pauses_after_s < now < until and not self.is_stopping:
            self._wrong("begun in a pause", f"{delivery!r}: at {now:.3f}, paused until {until:.3f}")
        failures = self._failures.get(delivery.record, 0)  # its own count of attempts may be what is wrong
        is_too_many = rules.counts_all and failures >= rules.attempts and not self.is_stopping
        if is_too_many or (delivery.attempt > rules.attempts and not rules.has_copies):
            self._wrong("tried too often", f"{delivery!r} at {now:.3f}")
        if rules.is_ordered:
            self._begin_in_lane(delivery, now)

    def _begin_in_lane(self, delivery: Delivery, now: float) -> None:
        lane, offset = _lane(delivery), delivery.offset
        going = self._going.get(delivery.key)
        if going is not None:
            self._wrong("out of order", f"{delivery!r} begins at {now:.3f}, and {going!r} isn't over")
        self._going[delivery.key] = delivery
        held = self._held.get(lane)
        if held is not None and offset == held[0]:
            del self._held[lane]
        is_first = _place(delivery) not in self.tried  # an attempt that timed out may not count as one
        self.tried.add(_place(delivery))
        if delivery.attempt > 1 or delivery.delivery_count > 1 or delivery.redelivered or not is_first:
            return
        # Later ones may have passed it meanwhile. Its delivery count needn't say so: a new leader doesn't know of
        # locks, and counts from one.
        if self.was_redelivered(delivery.partition, offset):
            return
        if held is not None and offset > held[0] and self.rules.keeps_delays() and not self.is_stopping:
            self._wrong("out of order", f"{delivery!r} begins at {now:.3f}: @{held[0]} is to be tried again")
        if offset < self._last[lane]:
            self._wrong("out of order", f"{delivery!r} begins at {now:.3f} behind @{self._last[lane]}")
        self._last[lane] = max(self._last[lane], offset)

    def _wrong(self, kind: str, text: str) -> None:
        self.found[kind].append(text)


class Redelivered:
    """Which records brokers have delivered more than once. Later rows may be added to `acquired`."""

    def __init__(self, acquired: Sequence[Acquired]) -> None:
        self._acquired = acquired
        self._read = 0
        self._once: set[tuple[int, int]] = set()
        self._again: set[tuple[int, int]] = set()

    def has(self, partition: int, offset: int) -> bool:
        for row in self._acquired[self._read :]:
            places = {(row.partition, at) for at in range(row.first, row.last + 1)}
            self._again |= places & self._once
            self._once |= places
        self._read = len(self._acquired)
        return (partition, offset) in self._again


def _lane(delivery: Delivery) -> Lane:
    return delivery.partition, delivery.key


def _place(delivery: Delivery) -> tuple[str, int, int]:
    return delivery.topic, delivery.partition, delivery.offset
