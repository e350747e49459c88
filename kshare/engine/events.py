"""What a consumer tells of itself while it works, to whoever wants to count, log or react.

An observer is a function of one event; `match` picks those that are of interest. Events come by request, by lease and
by batch, never by record (but for poison), and none is made while nobody observes. They are told in the consumer's own
event loop (of poison: where records are iterated): whatever takes long holds up fetching. One that raises is logged,
and harms nothing.

Decides nothing. No event holds keys, values, or secrets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple, get_args

from kshare.errors import KshareError
from kshare.state.session import AckRange

__all__ = [
    "Acquired",
    "Answered",
    "Assigned",
    "Damaged",
    "Event",
    "Fetched",
    "Finished",
    "LeaseLost",
    "LeaseRenewed",
    "LossReason",
    "Observer",
    "OnSettled",
    "Poisoned",
    "Refused",
    "SessionEnded",
    "Settled",
    "Skipped",
    "Word",
]

Word = Literal["gap", "accept", "release", "reject", "renew"]
"""What was said of a record; a gap is an offset that has none."""

_WORDS: tuple[Word, ...] = get_args(Word)
_RUN = re.compile(rb"(.)\1*", re.DOTALL)


class Answered(NamedTuple):
    """A request and its answer, or that there was none."""

    api: str
    """ShareFetch, ShareAcknowledge, ShareGroupHeartbeat, Metadata, FindCoordinator."""
    node: int | None
    seconds: float
    error: str | None
    """Kafka's name of the error, or the class of ours when no answer came."""


class Fetched(NamedTuple):
    """A fetch brought something."""

    node: int
    records: int
    """Offsets acquired; where the log has holes there are fewer records."""
    size: int
    """Bytes of record batches, as they came."""


class Acquired(NamedTuple):
    """A lease: records of one partition that were acquired together."""

    topic: str
    partition: int
    records: int
    delivery_count: int


class Refused(NamedTuple):
    """A broker refused one partition, or what was acknowledged of it."""

    api: str
    topic: str
    partition: int
    error: str


class Settled(NamedTuple):
    """What became of acknowledgements of one partition."""

    topic: str
    partition: int
    acknowledged: tuple[AckRange, ...]
    error: KshareError | None
    """None: the broker has confirmed them."""
    is_open: bool
    """No answer came: they may have counted, and come back if they haven't."""

    def ranges(self) -> Iterator[tuple[int, int, Word]]:
        """First offset, last offset, and what was said of all of these."""
        for first, last, types in self.acknowledged:
            if len(types) == 1:
                yield first, last, _WORDS[types[0]]
                continue
            for run in _RUN.finditer(types):
                yield first + run.start(), first + run.end() - 1, _WORDS[types[run.start()]]

    def counts(self) -> Mapping[Word, int]:
        """How many offsets by what was said of them."""
        found: Counter[Word] = Counter()
        for first, last, word in self.ranges():
            found[word] += last - first + 1
        return found


class Finished(NamedTuple):
    """Every record of a lease is settled, and the broker has confirmed it."""

    topic: str
    partition: int
    records: int
    seconds: float
    """Since it was put into the user's hands."""


class Skipped(NamedTuple):
    """Came again although the user had accepted them: accepted anew, without reaching the user."""

    topic: str
    partition: int
    records: int


class Damaged(NamedTuple):
    """Part of an answer couldn't be verified; what it may have held was released, never acknowledged otherwise."""

    topic: str
    partition: int
    records: int
    """Offsets released."""
    why: str


class LeaseRenewed(NamedTuple):
    topic: str
    partition: int
    records: int


LossReason = Literal["expired", "session", "topic", "moved"]


class LeaseLost(NamedTuple):
    """Records that weren't settled in time, or whose session ended: somebody gets them again."""

    topic: str
    partition: int
    records: int
    why: LossReason


class SessionEnded(NamedTuple):
    """A share session is over, and everything acquired in it released."""

    node: int
    why: str
    """In short, so that it can be counted: Kafka's name of the error, or the class of ours."""


class Assigned(NamedTuple):
    """The group has shared out its partitions anew."""

    partitions: Mapping[str, tuple[int, ...]]
    """All that are ours now, by topic."""
    gained: int
    lost: int


class Poisoned(NamedTuple):
    """A deserializer raised for this record."""

    topic: str
    partition: int
    offset: int
    part: str


Event = (
    Answered
    | Fetched
    | Acquired
    | Refused
    | Settled
    | Finished
    | Skipped
    | Damaged
    | LeaseRenewed
    | LeaseLost
    | SessionEnded
    | Assigned
    | Poisoned
)
Observer = Callable[[Event], None]
OnSettled = Callable[[Settled], None]
