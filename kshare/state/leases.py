"""How long records may be kept: deadlines, renewals, and what must not be handed out any more.

A lock runs from the moment the broker acquired, which is some time after the fetch was sent: so it is counted from
there. The answer may be read much later, by a blocked event loop or after the machine was suspended. Records are in one
of two places, and each has its own rule:

    where             | after 2/3 of the lock              | when the lock is over
    ------------------+------------------------------------+-------------------------------------------------------
    waiting in a      | released, so that somebody else    | not handed out (rule 9)
    buffer            | gets them                          |
    in the user's     | renewed, if broker and group allow | lost: reported to the handler, left out of
    hands             | it, until `longest_s` is over      | acknowledgements

Decides what is to be renewed, to be released and is lost at a given time. Never sends anything; times are passed in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from kshare.state.lease import Lease

RENEW_AFTER = 2 / 3
"""Of the lock: late enough to cost little, early enough for a second try."""
MARGIN = 0.05
"""Of the lock, taken off its end: the acknowledgement will be under way for some of it."""


@dataclass(slots=True)
class _Term:
    lease: Lease
    since: float
    lock_s: float
    next_look: float
    size: int
    handed_at: float | None = None
    tries: int = 0
    """Renewals since the last that was confirmed."""


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be done now."""

    renew: list[Lease] = field(default_factory=list)
    release: list[Lease] = field(default_factory=list)
    capped: list[Lease] = field(default_factory=list)
    """Kept so long that they are renewed no more; told once, before they are lost."""


class LeaseKeeper:
    """The terms of all leases of a consumer."""

    def __init__(self, *, can_renew: bool, longest_s: float) -> None:
        self.can_renew = can_renew
        self.longest_s = longest_s
        self._terms: dict[int, _Term] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._terms)

    def add(self, lease: Lease, lock_s: float, since: float, size: int = 0) -> None:
        """Acquired by a fetch that was sent then, with so many bytes; waits in a buffer until `hand_out`."""
        lease.deadline = since + lock_s * (1 - MARGIN)
        self._terms[id(lease)] = _Term(lease, since, lock_s, since + lock_s * RENEW_AFTER, size)
        self._size += size

    def size_held(self, most: int) -> int:
        """Bytes of what is undecided; counted roughly, and not too low, while they are far fewer than `most`."""
        if 4 * self._size < most:
            return self._size
        return sum(
            term.size * term.lease.undecided // len(term.lease.states)
            for term in self._terms.values()
            if term.size
        )

    def on_suspended(self, seconds: float) -> None:
        """The clock stood still for so long, and locks went on."""
        for term in self._terms.values():
            term.lease.deadline -= seconds
            term.since -= seconds
            term.next_look -= seconds

    def hand_out(self, lease: Lease, now: float) -> bool:
        """The user wants it: False when its lock is over or it was given back meanwhile."""
        term = self._terms.get(id(lease))
        if term is None or lease.deadline <= now:
            return False
        term.handed_at = now
        return True

    def handed_at(self, lease: Lease) -> float | None:
        """When the user got it; None while it waits, and when it isn't looked after."""
        term = self._terms.get(id(lease))
        return term.handed_at if term else None

    def remove(self, leases: Iterable[Lease]) -> None:
        """Settled or lost: no more looking after."""
        for lease in leases:
            term = self._terms.pop(id(lease), None)
            if term:
                self._size -= term.size

    def on_renewed(self, lease: Lease, since: float) -> None:
        """The broker has confirmed a renewal that was sent then."""
        term = self._terms.get(id(lease))
        if term:
            term.tries = 0
            lease.deadline = since + term.lock_s * (1 - MARGIN)
            term.next_look = since + term.lock_s * RENEW_AFTER

    def on_not_renewed(self, lease: Lease) -> None:
        """The broker won't: the lock runs its time."""
        term = self._terms.get(id(lease))
        if term:
            term.next_look = lease.deadline

    @property
    def wake_at(self) -> float:
        """When there is something to do at the earliest: `due` has something to say, or a lock has run out."""
        return min([term.next_look for term in self._terms.values()], default=math.inf)

    def due(self, now: float) -> Due:
        due = Due()
        looked_at = [term for term in self._terms.values() if term.next_look <= now]
        # Lost otherwise than by its time, as what the broker gave us again: there is nothing to wake for any more.
        self.remove(term.lease for term in looked_at if term.lease.is_done)
        for term in looked_at:
            if term.lease.deadline > now:
                self._decide(term, now, due)
        return due

    def _decide(self, term: _Term, now: float, due: Due) -> None:
        lease = term.lease
        term.next_look = lease.deadline
        if not lease.undecided:
            return
        if term.handed_at is None:
            due.release.append(lease)
        elif not self.can_renew or now - term.since >= self.longest_s:
            due.capped.append(lease)
        else:
            due.renew.append(lease)
            term.tries += 1
            if term.tries == 1:
                # not confirmed by then: try once more before the lock is over
                term.next_look = (now + lease.deadline) / 2
