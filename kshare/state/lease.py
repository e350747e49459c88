"""One lease: consecutive records of a partition that were acquired together, and where each of them stands.

One byte a record says where it stands, so that a decision costs one store, and ranges are cut out of those bytes at C
speed: the types that go to the broker are a slice of them. `acks` has the table of what follows what.

Decides whether a decision still counts. Never decides what the user wants, nor what is sent when.

Compiled through `lease.pxd`; users' handles point here, and settle a record in a few nanoseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

import kshare.protocol.memory as memory
from kshare.protocol.uncopied import refuse_copy

Partition = tuple[bytes, int]
"""Topic id and partition number."""

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)

HELD, SETTLED, LOST = 0xFF, 0x20, 0x30
SENT = 0x10
"""With the type that was sent added."""

_held, _renew, _renewing = HELD, RENEW, SENT | RENEW
"""The undecided states once more, for C: see the .pxd."""

_ACCEPTED_RUN = re.compile(rb"[\x01\x11]+")


def table(changes: dict[int, int]) -> bytes:
    """For `Lease.translate`: states that change, all others stay."""
    return bytes(changes.get(value, value) for value in range(256))


_ALL_TO_LOST = table({HELD: LOST} | dict.fromkeys(range(5), LOST) | {SENT | kind: LOST for kind in range(5)})
_TO_SENT = table({kind: SENT | kind for kind in range(5)})
_HELD_TO = [table(dict.fromkeys((HELD, RENEW, SENT | RENEW), kind)) for kind in range(4)] + [
    table({HELD: RENEW})
]


class Tally:
    """How many records are held and undecided, over all leases; rings once when they have become few enough."""

    __slots__ = ("_ring", "_ring_at", "undecided")

    def __init__(self, ring: Callable[[], None]) -> None:
        self.undecided = 0
        self._ring_at = -1
        self._ring = ring

    def ring_at(self, undecided: int) -> None:
        """When no more than so many are undecided, at the next decision; the highest wish counts."""
        if undecided > self._ring_at:
            self._ring_at = undecided

    def add(self, more: int) -> None:
        self.undecided += more
        if more < 0 and self.undecided <= self._ring_at:
            self.ring()

    def __reduce__(self) -> NoReturn:
        refuse_copy(self, "it belongs to one consumer")

    def ring(self) -> None:
        """There is something to be done at once."""
        self._ring_at = -1
        self._ring()


def _nobody() -> None:
    """Rung for a lease that is counted with no others."""


class Lease:
    """What users' handles point to."""

    __slots__ = (
        "_tally",
        "deadline",
        "delivery_count",
        "epochs",
        "first",
        "is_loss_told",
        "last",
        "partition",
        "states",
        "why_lost",
    )

    def __init__(
        self,
        partition: Partition,
        first: int,
        last: int,
        delivery_count: int,
        *,
        tally: Tally | None = None,
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
        self.why_lost = ""
        """Once something of it is lost: why, as users are told it."""
        self.is_loss_told = False
        """The user has had an error for it."""
        self.states = bytearray(b"\xff") * (last - first + 1)
        self._tally = Tally(_nobody) if tally is None else tally
        self._tally.add(last - first + 1)

    def __reduce__(self) -> NoReturn:
        refuse_copy(self, "the locks behind it belong to one consumer's session")

    def __repr__(self) -> str:
        return f"Lease({self.partition[1]}: {self.first}..{self.last}, held {self.undecided})"

    def count(self, state: int) -> int:
        return self.count_between(state, state)

    def count_between(self, low: int, high: int) -> int:
        return memory.count_between(self.states, 0, len(self.states), low, high)

    @property
    def undecided(self) -> int:
        """Ours and not decided; being renewed decides nothing."""
        return self.count(_held) + self.count(_renew) + self.count(_renewing)

    @property
    def has_decided(self) -> bool:
        """Something of it is to be sent."""
        return self.count_between(GAP, RENEW) > 0

    @property
    def is_done(self) -> bool:
        """Nothing of it is held, decided or under way any more."""
        return self.count(SETTLED) + self.count(LOST) == len(self.states)

    def is_held(self, offset: int) -> bool:
        """Ours and undecided."""
        state = self.states[offset - self.first]
        return state in (_held, _renew, _renewing)

    def can_decide(self, offset: int) -> bool:
        """What `decide` would answer."""
        state = self.states[offset - self.first]
        return state <= _renew or state in (_held, _renewing)

    def decide(self, offset: int, kind: int) -> bool:
        """False when it is too late: sent, settled or lost."""
        index = offset - self.first
        if index < 0 or index >= len(self.states):
            raise ValueError(f"offset {offset} is not of this lease ({self.first} to {self.last})")
        state = self.states[index]
        was_held = state in (_held, _renew, _renewing)
        if not was_held and state > _renew:
            return False
        self.states[index] = kind
        if was_held != (kind == _renew):
            self._tally.add(-1 if was_held else 1)
        if kind == _renew:
            self._tally.ring()
        return True

    def decide_quietly(self, offset: int, kind: int) -> bool:
        """`decide` where the tally doesn't ring by it. False: nothing is decided, for that or as it is too late."""
        if kind == _renew or self._tally.undecided - 1 <= self._tally._ring_at:
            return False
        return self.decide(offset, kind)

    def decide_if_held(self, offset: int, kind: int) -> bool:
        """What happens without the user's word, and never against it. False: it is decided, or lost."""
        return self.is_held(offset) and self.decide(offset, kind)

    def decide_held(self, kind: int) -> int:
        """Decide all that isn't yet (a renewal decides nothing); how many these were."""
        changed = self.count(HELD) if kind == RENEW else self.undecided
        if changed:
            self.translate(_HELD_TO[kind])
        if kind == RENEW:
            self._tally.ring()
        return changed

    def decide_held_within(self, first: int, last: int, kind: int) -> None:
        """Of these offsets alone, which may reach beyond the lease."""
        start, stop = max(0, first - self.first), min(len(self.states), last + 1 - self.first)
        if start < stop:
            before = self.undecided
            self.states[start:stop] = self.states[start:stop].translate(_HELD_TO[kind])
            less = before - self.undecided
            if less:
                self._tally.add(-less)

    def lose(self) -> None:
        self.translate(_ALL_TO_LOST)

    def send(self, start: int, stop: int) -> bytes:
        """Take note that this part of the states goes out: its types, or one of them if all are the same."""
        states = self.states
        types = bytes(states[start:stop])
        states[start:stop] = types.translate(_TO_SENT)
        kind = types[0]
        is_same = memory.count_between(states, start, stop, SENT | kind, SENT | kind) == stop - start
        return types[:1] if is_same else types

    def translate(self, changes: bytes) -> None:
        """Many states at once; see `table`."""
        before = self.undecided
        self.states = self.states.translate(changes)
        less = before - self.undecided
        if less:
            self._tally.add(-less)

    def accepted(self) -> Iterator[tuple[int, int, int]]:
        """Offsets that the user accepted and nobody has confirmed: first, last, leader epoch."""
        for match in _ACCEPTED_RUN.finditer(self.states):
            start, end = match.span()
            first, last = self.first + start, self.first + end - 1
            for batch_first, batch_last, epoch in self.epochs:
                if batch_first <= last and first <= batch_last:
                    yield max(first, batch_first), min(last, batch_last), epoch

    def runs(self, low: int, high: int) -> list[tuple[int, int]]:
        """Where states are no lower and no higher: start and end of every such part."""
        return memory.runs_between(self.states, 0, len(self.states), low, high)

    def runs_within(self, first: int, last: int, low: int, high: int) -> list[tuple[int, int]]:
        """Of these offsets alone, which may reach beyond the lease."""
        start, stop = max(0, first - self.first), min(len(self.states), last + 1 - self.first)
        return memory.runs_between(self.states, start, stop, low, high)
