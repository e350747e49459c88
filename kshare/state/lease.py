"""One lease: consecutive records of a partition that were acquired together, and the state of each.

The state is one byte per record. So a decision costs one store, and the acknowledgement types sent to the broker are a
slice of these bytes, cut at C speed. `acks` has the table of transitions.

Decides whether a decision still counts, never what the user wants or what is sent when.

Compiled through `lease.pxd`. Records refer to their lease directly, so settling one takes a few nanoseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

import kshare.fast.byte_runs as byte_runs
from kshare.offset_ranges import ranges_of
from kshare.protocol.acknowledge_types import AcknowledgeType
from kshare.protocol.uncopied import refuse_copy

TopicIdPartition = tuple[bytes, int]
"""Topic id and partition number."""

StateRanges = tuple[tuple[int, int], ...]
"""Lowest and highest state of each range, ascending."""

GAP = int(AcknowledgeType.GAP)
ACCEPT = int(AcknowledgeType.ACCEPT)
RELEASE = int(AcknowledgeType.RELEASE)
REJECT = int(AcknowledgeType.REJECT)
RENEW = int(AcknowledgeType.RENEW)
"""The types that kshare itself decides on. As plain numbers, since they are compared for each record."""

HELD, SETTLED, LOST = 0xFF, 0x20, 0x30
SENT = 0x10
"""Plus the type that was sent."""
_UNDECIDED = (RENEW, SENT | RENEW, HELD)


def state_ranges(states: Iterable[int]) -> StateRanges:
    """These states, which ascend, as ranges for `Lease.runs_in`."""
    return tuple(ranges_of(states))


UNDECIDED = state_ranges(_UNDECIDED)
"""Held, whether or not a renewal is to be sent or under way: that isn't a decision."""

_accept, _held, _lost, _renew, _renewing = ACCEPT, HELD, LOST, RENEW, SENT | RENEW
_highest = int(max(AcknowledgeType))
"""Types and states again, as C variables: see the .pxd."""

_ACCEPTED_RUN = re.compile(b"[" + re.escape(bytes([ACCEPT, SENT | ACCEPT])) + b"]+")


def translation_table(changes: Mapping[int, int]) -> bytes:
    """A table for `Lease.translate`: maps the states in `changes`, leaves all others."""
    return bytes(changes.get(value, value) for value in range(256))


_ALL_TO_LOST = translation_table(
    {HELD: LOST} | dict.fromkeys(AcknowledgeType, LOST) | {SENT | kind: LOST for kind in AcknowledgeType}
)
_TO_SENT = translation_table({kind: SENT | kind for kind in AcknowledgeType})
_HELD_TO = [
    translation_table(dict.fromkeys(_UNDECIDED if kind.is_final else (HELD,), kind))
    for kind in AcknowledgeType
]


class UndecidedCounter:
    """Counts held and undecided records over all leases; calls `notify` once when they have become few enough."""

    __slots__ = ("_notify", "_notify_at", "undecided")

    def __init__(self, notify: Callable[[], None]) -> None:
        self.undecided = 0
        self._notify_at = -1
        self._notify = notify

    def notify_at(self, undecided: int) -> None:
        """Call back at the next decision after which at most this many are undecided. The highest number counts."""
        if undecided > self._notify_at:
            self._notify_at = undecided

    def add(self, more: int) -> None:
        self.undecided += more
        if more < 0 and self.undecided <= self._notify_at:
            self.notify()

    def __reduce__(self) -> NoReturn:
        refuse_copy(self, "it belongs to one consumer")

    def notify(self) -> None:
        """Call back now: something has to be sent at once."""
        self._notify_at = -1
        self._notify()


def _ignore() -> None:
    """The callback of a lease that isn't counted with others."""


class Lease:
    """The states of consecutive records of one partition."""

    __slots__ = (
        "_counter",
        "_size",
        "deadline",
        "delivery_count",
        "first",
        "held_losses",
        "last",
        "leader_epochs",
        "loss_reason",
        "partition",
        "reported_losses",
        "states",
    )

    def __init__(
        self,
        partition: TopicIdPartition,
        first: int,
        last: int,
        delivery_count: int,
        *,
        counter: UndecidedCounter | None = None,
        deadline: float = float("inf"),
        leader_epochs: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        self.partition = partition
        self.first = first
        self.last = last
        self.delivery_count = delivery_count
        self.deadline = deadline
        self.leader_epochs = leader_epochs
        """First offset, last offset and leader epoch of its record batches."""
        self.loss_reason = ""
        """Why some of it was lost, in words for the user."""
        self.held_losses: list[tuple[int, int]] = []
        """What was lost while the user held it: first and last offset of each range."""
        self.reported_losses: set[int] | None = None
        """The offsets of lost records for which the user has got an error, if any."""
        self.states = bytearray(b"\xff") * (last - first + 1)
        self._size = len(self.states)
        """0 if the lease wasn't initialised: then there are no states to read."""
        self._counter = UndecidedCounter(_ignore) if counter is None else counter
        self._counter.add(last - first + 1)

    def __reduce__(self) -> NoReturn:
        refuse_copy(self, "its locks belong to one consumer's session")

    def __repr__(self) -> str:
        return f"Lease({self.partition[1]}: {self.first}..{self.last}, held {self.undecided})"

    def report_loss(self, first: int, last: int) -> None:
        """The user gets an error for these."""
        if self.reported_losses is None:
            self.reported_losses = set()
        self.reported_losses.update(range(max(first, self.first), min(last, self.last) + 1))

    @property
    def is_loss_reported(self) -> bool:
        """Whether the user has got an error for all that was lost while it was held."""
        reported = self.reported_losses
        return reported is not None and all(
            reported.issuperset(range(first, last + 1)) for first, last in self.held_losses
        )

    def count(self, state: int) -> int:
        return self.count_between(state, state)

    def count_between(self, low: int, high: int) -> int:
        return byte_runs.count_between(self.states, 0, len(self.states), low, high)

    @property
    def undecided(self) -> int:
        """Held and not decided; a renewal isn't a decision."""
        return self.count(_held) + self.count(_renew) + self.count(_renewing)

    @property
    def has_decided(self) -> bool:
        """Whether there are acknowledgements to send."""
        return self.count_between(0, _highest) > 0

    @property
    def is_done(self) -> bool:
        """Whether every record is settled or lost."""
        return self.count(SETTLED) + self.count(LOST) == len(self.states)

    def is_held(self, offset: int) -> bool:
        """Held and undecided. False for an offset outside of the lease."""
        index = offset - self.first
        if index < 0 or index >= self._size:
            return False
        state = self.states[index]
        return state in (_held, _renew, _renewing)

    def is_lost(self, offset: int) -> bool:
        """True for an offset outside of the lease as well."""
        index = offset - self.first
        if index < 0 or index >= self._size:
            return True
        return self.states[index] == _lost

    def can_decide(self, offset: int) -> bool:
        """What `decide` would return. False for an offset outside of the lease."""
        index = offset - self.first
        if index < 0 or index >= self._size:
            return False
        state = self.states[index]
        return state <= _highest or state in (_held, _renewing)

    def decide(self, offset: int, kind: int) -> bool:
        """False when it is too late: sent, settled or lost."""
        index = offset - self.first
        if index < 0 or index >= self._size:
            raise ValueError(f"offset {offset} is not in this lease ({self.first} to {self.last})")
        state = self.states[index]
        was_held = state in (_held, _renew, _renewing)
        if not was_held and state > _highest:
            return False
        if state == _renewing and kind == _renew:
            return True  # being done: if it were sent again, its lease would count as renewed only by that
        self.states[index] = kind
        if was_held != (kind == _renew):
            self._counter.add(-1 if was_held else 1)
        if kind == _renew:
            self._counter.notify()
        return True

    def decide_quietly(self, offset: int, kind: int) -> bool:
        """`decide`, unless that makes the counter call back. False: not decided, for this reason or too late."""
        if not self.can_decide(offset):
            return False
        if kind == _renew or self._counter.undecided - 1 <= self._counter._notify_at:
            return False
        return self.decide(offset, kind)

    def accept_quietly(self, offset: int) -> bool:
        """Accept a record that is held. False: not accepted, since that makes the counter call back, or isn't usual."""
        index = offset - self.first
        if index < 0 or index >= self._size or self.states[index] != _held:
            return False
        if self._counter.undecided - 1 <= self._counter._notify_at:
            return False
        self.states[index] = _accept
        self._counter.undecided -= 1
        return True

    def decide_if_held(self, offset: int, kind: int) -> bool:
        """For automatic decisions, which never override the user's. False if it is decided already, or lost."""
        return self.is_held(offset) and self.decide(offset, kind)

    def decide_held(self, kind: int) -> int:
        """Decides all undecided records (a renewal isn't a decision); returns how many."""
        changed = self.count(HELD) if kind == RENEW else self.undecided
        if changed:
            self.translate(_HELD_TO[kind])
        if kind == RENEW:
            self._counter.notify()
        return changed

    def decide_held_within(self, first: int, last: int, kind: int) -> None:
        """The same within these offsets, which may extend beyond the lease."""
        start, stop = max(0, first - self.first), min(len(self.states), last + 1 - self.first)
        if start < stop:
            before = self.undecided
            self.states[start:stop] = self.states[start:stop].translate(_HELD_TO[kind])
            less = before - self.undecided
            if less:
                self._counter.add(-less)

    def lose(self) -> None:
        self.translate(_ALL_TO_LOST)

    def disown(self, reason: str) -> None:
        """Mark all records as lost without counting them: this process is a fork of the one that acquired them."""
        self.loss_reason = reason
        self.states = self.states.translate(_ALL_TO_LOST)

    def send(self, start: int, stop: int) -> bytes:
        """Marks this part of the states as sent; returns its types, or just one if all are the same."""
        states = self.states
        if not 0 <= start < stop <= len(states):
            raise IndexError(f"{start} to {stop} isn't a part of {len(states)} states")
        types = bytes(states[start:stop])
        states[start:stop] = types.translate(_TO_SENT)
        kind = types[0]
        is_same = byte_runs.count_between(states, start, stop, SENT | kind, SENT | kind) == stop - start
        return types[:1] if is_same else types

    def translate(self, changes: bytes) -> None:
        """Changes many states at once; see `translation_table`."""
        before = self.undecided
        self.states = self.states.translate(changes)
        less = before - self.undecided
        if less:
            self._counter.add(-less)

    def accepted(self) -> Iterator[tuple[int, int, int]]:
        """Yields what the user accepted and no broker has confirmed: first offset, last offset, leader epoch."""
        for match in _ACCEPTED_RUN.finditer(self.states):
            start, end = match.span()
            first, last = self.first + start, self.first + end - 1
            for batch_first, batch_last, epoch in self.leader_epochs:
                if batch_first <= last and first <= batch_last:
                    yield max(first, batch_first), min(last, batch_last), epoch

    def runs_in(self, first: int, last: int, states: StateRanges) -> list[tuple[int, int]]:
        """Start and end index of every run of these states within these offsets, which may extend beyond the lease."""
        start, stop = max(0, first - self.first), min(len(self.states), last + 1 - self.first)
        runs: list[tuple[int, int]] = []
        for low, high in states:
            runs += byte_runs.runs_between(self.states, start, stop, low, high)
        if len(states) > 1:
            runs.sort()
        return runs

    def spans_in(self, first: int, last: int, states: StateRanges) -> list[tuple[int, int]]:
        """First and last offset of each of these runs."""
        return [
            (self.first + start, self.first + end - 1) for start, end in self.runs_in(first, last, states)
        ]
