"""What became of acquired records: from the user's word to the broker's.

One byte a record says where it stands, so that a decision costs one store, and ranges are cut out of those bytes at C
speed: the types that go to the broker are a slice of them.

    state   | event                        | next    | note
    --------+------------------------------+---------+---------------------------------------------------
    held    | decide(type)                 | decided | may be decided otherwise until it is sent
    decided | take                         | sent    | as ranges, ascending, one type or one per offset
    sent    | confirmed                    | settled | renewals: held again
    sent    | decide, while it is a renewal| decided | the renewal only buys time for this
    sent    | refused, in company          | decided | the broker undoes all of a partition's ranges for one bad
            |                              |         | one: they go out again in halves (salvage)
    sent    | refused, alone               | lost    | it is this very record that the broker no longer knows as ours
    sent    | not now                      | decided | the share coordinator is moving: nothing was done, try again
    sent    | refused for another reason   | lost    | moved leader, deleted topic, no permission: reported
    sent    | outcome open                 | lost    | connection broken, no answer: reported as such
    any     | lock ran out, session reset  | lost    | unless settled

Decides which acknowledgements go out together and what a refusal means. Never decides what the user wants, and never
when to send.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kshare.protocol.error_codes import ErrorCode
from kshare.state.session import AckRange, Partition

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)

HELD, SETTLED, LOST = 0xFF, 0x20, 0x30
_SENT = 0x10
_PIECEWISE = {ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST}
_NOT_NOW = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
}
_DECIDED_RUN = re.compile(rb"[\x00-\x04]+")
_ACCEPTED_RUN = re.compile(rb"[\x01\x11]+")
_SENT_RUN = re.compile(rb"[\x10-\x14]+")


def _table(changes: dict[int, int]) -> bytes:
    return bytes(changes.get(value, value) for value in range(256))


_TO_SENT = _table({kind: _SENT | kind for kind in range(5)})
_TO_DECIDED = _table({_SENT | kind: kind for kind in range(5)})
_TO_SETTLED = _table({_SENT | kind: SETTLED for kind in range(4)} | {_SENT | RENEW: HELD})
_SENT_TO_LOST = _table({_SENT | kind: LOST for kind in range(5)})
_ALL_TO_LOST = _table(
    {HELD: LOST} | dict.fromkeys(range(5), LOST) | {_SENT | kind: LOST for kind in range(5)}
)
_HELD_TO = [_table(dict.fromkeys((HELD, RENEW, _SENT | RENEW), kind)) for kind in range(4)] + [
    _table({HELD: RENEW})
]


class Lease:
    """Consecutive records of one partition that were acquired together. What users' handles point to."""

    __slots__ = ("deadline", "delivery_count", "epochs", "first", "last", "partition", "states")

    def __init__(
        self,
        partition: Partition,
        first: int,
        last: int,
        delivery_count: int,
        *,
        deadline: float = float("inf"),
        epochs: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        self.partition = partition
        self.first = first
        self.last = last
        self.delivery_count = delivery_count
        self.deadline = deadline
        self.epochs = epochs
        """First offset, last offset and leader epoch of the batches that it came in."""
        self.states = bytearray(b"\xff") * (last - first + 1)

    def __repr__(self) -> str:
        return f"Lease({self.partition[1]}: {self.first}..{self.last}, held {self.count(HELD)})"

    def count(self, state: int) -> int:
        return self.states.count(state)

    @property
    def is_done(self) -> bool:
        """Nothing of it is held, decided or under way any more."""
        return self.count(SETTLED) + self.count(LOST) == len(self.states)

    @property
    def is_settled(self) -> bool:
        return self.count(SETTLED) == len(self.states)

    def decide(self, offset: int, kind: int) -> bool:
        """False when it is too late: sent, settled or lost."""
        index = offset - self.first
        if not 0 <= index < len(self.states):
            raise ValueError(f"offset {offset} is not of this lease ({self.first} to {self.last})")
        state = self.states[index]
        if state > RENEW and state not in (HELD, _SENT | RENEW):
            return False
        self.states[index] = kind
        return True

    def is_held(self, offset: int) -> bool:
        """Ours and undecided; being renewed decides nothing."""
        return self.states[offset - self.first] in (HELD, RENEW, _SENT | RENEW)

    def decide_if_held(self, offset: int, kind: int) -> None:
        """What happens without the user's word, and never against it."""
        if self.is_held(offset):
            self.states[offset - self.first] = kind

    def decide_held(self, kind: int) -> int:
        """Decide all that isn't yet (a renewal decides nothing); how many these were."""
        held = self.count(HELD)
        if kind != RENEW:
            held += self.count(RENEW) + self.count(_SENT | RENEW)
        if held:
            self.states = self.states.translate(_HELD_TO[kind])
        return held

    def accepted(self) -> Iterator[tuple[int, int, int]]:
        """Offsets that the user accepted and nobody has confirmed: first, last, leader epoch."""
        for start, end in self.runs(_ACCEPTED_RUN):
            first, last = self.first + start, self.first + end - 1
            for batch_first, batch_last, epoch in self.epochs:
                if batch_first <= last and first <= batch_last:
                    yield max(first, batch_first), min(last, batch_last), epoch

    def lose(self) -> None:
        self.states = self.states.translate(_ALL_TO_LOST)

    def runs(self, pattern: re.Pattern[bytes]) -> Iterator[tuple[int, int]]:
        for match in pattern.finditer(self.states):
            yield match.start(), match.end()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the broker said of acknowledged records. `error` 0: confirmed."""

    partition: Partition
    ranges: tuple[AckRange, ...]
    error: int
    is_open: bool = False
    """Nobody knows: the connection broke, or the answer was silent. They may have counted."""
    renewed: tuple[Lease, ...] = ()
    """Leases whose lock begins anew with this answer."""


class PartitionAcks:
    """The leases of one partition from one session, in the order of their offsets."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leases: list[Lease] = []
        self._under_way: list[AckRange] = []
        self._is_renewing = False
        self._pieces: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
        """Offsets that a refusal undid (of renewals or of the rest), to be sent again piece by piece, each alone."""

    def add(self, lease: Lease) -> None:
        self.leases.append(lease)
        self.leases.sort(key=lambda one: one.first)

    @property
    def has_decided(self) -> bool:
        return any(_DECIDED_RUN.search(lease.states) for lease in self.leases)

    @property
    def is_under_way(self) -> bool:
        return bool(self._under_way)

    def take(self, *, renewals: bool) -> list[AckRange]:
        """What goes out next: renewals and other types in separate requests; after a refusal a piece at a time."""
        if self._under_way:
            return []
        self._is_renewing = renewals
        window = self._pieces[renewals].pop() if self._pieces[renewals] else None
        for lease in self.leases:
            for start, end in list(lease.runs(_DECIDED_RUN)):
                self._under_way += self._cut(lease, start, end, renewals, window)
        if window and not self._under_way:
            return self.take(renewals=renewals)
        return self._under_way

    def _cut(
        self, lease: Lease, start: int, end: int, renewals: bool, window: tuple[int, int] | None
    ) -> Iterator[AckRange]:
        if window:
            start, end = max(start, window[0] - lease.first), min(end, window[1] + 1 - lease.first)
        for low, high in _of_kind(lease.states, start, end, renewals):
            types = bytes(lease.states[low:high])
            lease.states[low:high] = types.translate(_TO_SENT)
            same = types.count(types[0]) == len(types)
            yield AckRange(lease.first + low, lease.first + high - 1, types[:1] if same else types)

    def on_answer(self, error: int) -> list[Outcome]:
        """The broker's word on all that is under way."""
        ranges, self._under_way = self._under_way, []
        if not ranges:
            return []
        if not error:
            renewed = (
                tuple(lease for lease in self.leases if lease.count(_SENT | RENEW))
                if self._is_renewing
                else ()
            )
            self._translate(_TO_SETTLED)
            return [Outcome(self.partition, tuple(ranges), 0, renewed=renewed)]
        first, last = ranges[0].first, ranges[-1].last
        if error in _NOT_NOW:
            self._translate(_TO_DECIDED)
            return []
        if error not in _PIECEWISE or first == last:
            self._translate(_SENT_TO_LOST)
            return [Outcome(self.partition, tuple(ranges), error)]
        self._translate(_TO_DECIDED)
        middle = _middle(ranges)
        self._pieces[self._is_renewing] += [(middle, last), (first, middle - 1)]
        return []

    def on_silence(self) -> list[Outcome]:
        """No word: the outcome stays open, and the records are no longer ours to acknowledge."""
        ranges, self._under_way = self._under_way, []
        self._translate(_SENT_TO_LOST)
        return [Outcome(self.partition, tuple(ranges), 0, is_open=True)] if ranges else []

    def lose(self) -> list[Lease]:
        """The session is gone, and with it every lock."""
        lost = [lease for lease in self.leases if not lease.is_done]
        for lease in lost:
            lease.lose()
        self.leases, self._under_way, self._pieces = [], [], {False: [], True: []}
        return lost

    def expire(self, now: float) -> list[Lease]:
        """Leases whose lock ran out: what wasn't sent yet is left out from now on."""
        late = [lease for lease in self.leases if lease.deadline <= now and not lease.is_done]
        for lease in late:
            sent = [(low, high, bytes(lease.states[low:high])) for low, high in lease.runs(_SENT_RUN)]
            lease.lose()
            for low, high, states in sent:
                lease.states[low:high] = states
        return late

    def forget_done(self) -> None:
        self.leases = [lease for lease in self.leases if not lease.is_done]

    def _translate(self, table: bytes) -> None:
        for lease in self.leases:
            lease.states = lease.states.translate(table)


def _of_kind(states: bytearray, start: int, end: int, renewals: bool) -> Iterable[tuple[int, int]]:
    """The parts of a decided run that are renewals, or those that are not."""
    pattern = rb"\x04+" if renewals else rb"[\x00-\x03]+"
    if start >= end:
        return
    for match in re.compile(pattern).finditer(states, start, end):
        yield match.start(), match.end()


def _middle(ranges: list[AckRange]) -> int:
    """Where to halve: the first offset of the second half, counted in records."""
    total = sum(one.last - one.first + 1 for one in ranges)
    left = total // 2
    for one in ranges:
        size = one.last - one.first + 1
        if left < size:
            return one.first + left
        left -= size
    return ranges[-1].last
