"""What a consumer tells of itself while it works, to whoever wants to count, log or react.

An observer is a function of one event; `match` picks those that are of interest. Events come by request, by lease and
by batch, never by record (but for poison), and none is made while nobody observes. They are told in the consumer's own
event loop (of poison: where records are iterated): whatever takes long holds up fetching. One that raises is logged,
and harms nothing.

Decides nothing. No event holds keys, values, or secrets.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, get_args

from kshare.errors import KshareError
from kshare.protocol.error_codes import error_name
from kshare.protocol.message import Message, Request
from kshare.protocol.messages.share_acknowledge_response import ShareAcknowledgeResponse
from kshare.protocol.messages.share_fetch_response import ShareFetchResponse
from kshare.state.session import AckRange
from kshare.summary_log import SummaryLog

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

log = logging.getLogger("kshare.client")

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


class Reporter:
    """Tells one consumer's observers, if it has any; `is_on` says whether events are worth making.

    `log` takes what may be logged for each record or each request; whoever ends the consumer closes it.
    """

    def __init__(
        self,
        observer: Observer | None = None,
        on_settled: OnSettled | None = None,
        *,
        group: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.log = SummaryLog(log, group, clock)
        self._observer = observer
        self._on_settled = on_settled
        self.is_on = observer is not None
        self.wants_outcomes = self.is_on or on_settled is not None

    def tell(self, event: Event) -> None:
        if self._observer is not None:
            self._call(self._observer, event)
        if self._on_settled is not None and isinstance(event, Settled):
            self._call(self._on_settled, event)

    def answered(
        self, request: Request[Any], node: int | None, seconds: float, answer: Message | KshareError
    ) -> None:
        """One exchange, whatever came of it."""
        if self.is_on:
            code = getattr(answer, "error_code", 0)
            failure = error_name(code) if code else None
            if isinstance(answer, KshareError):
                failure = type(answer).__name__
            self.tell(Answered(request.NAME.removesuffix("Request"), node, seconds, failure))

    def fetched(self, node: int, answer: ShareFetchResponse, name_of: Callable[[bytes], str | None]) -> None:
        """All that the answer to a fetch tells."""
        if not self.is_on:
            return
        records = size = 0
        for row in answer.responses:
            topic = name_of(row.topic_id) or row.topic_id.hex()
            for data in row.partitions:
                for code in {data.error_code, data.acknowledge_error_code} - {0}:
                    self.tell(Refused("ShareFetch", topic, data.partition_index, error_name(code)))
                for acquired in data.acquired_records:
                    count = acquired.last_offset - acquired.first_offset + 1
                    self.tell(Acquired(topic, data.partition_index, count, acquired.delivery_count))
                    records += count
                size += len(data.records or b"")
        if records:
            self.tell(Fetched(node, records, size))

    def acknowledged(self, answer: ShareAcknowledgeResponse, name_of: Callable[[bytes], str | None]) -> None:
        """What was refused."""
        if self.is_on:
            for row in answer.responses:
                for data in row.partitions:
                    if data.error_code:
                        topic = name_of(row.topic_id) or row.topic_id.hex()
                        error = error_name(data.error_code)
                        self.tell(Refused("ShareAcknowledge", topic, data.partition_index, error))

    def _call(self, function: Callable[[Settled], None] | Observer, event: Settled | Event) -> None:
        try:
            function(event)  # type: ignore[arg-type]
        except Exception:
            self.log.event(logging.ERROR, f"an observer raised at {type(event).__name__}", has_traceback=True)
