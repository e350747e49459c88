"""When leases have to be renewed, released, or given up as expired.

A lock starts when the broker acquires, some time after the fetch was sent, so it is counted from the sending. The
response may be read much later: the event loop may be blocked, or the machine suspended.

    records are       | after 2/3 of the lock              | when the lock expires
    ------------------+------------------------------------+-------------------------------------------------------
    waiting in the    | released, so that another consumer | not handed out (rule 9)
    inbox             | gets them                          |
    in the user's     | renewed, if broker and group allow | lost: reported to the user, left out of
    hands             | it, for up to `longest_s` in all   | acknowledgements

Decides what to renew, to release and to count as lost at a given time. Never sends anything; times are passed in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from kshare.state.lease import Lease

RENEW_AFTER = 2 / 3
"""Fraction of the lock: late enough to cost little, early enough for a second attempt."""
MARGIN = 0.05
"""Fraction of the lock, taken off its end: sending the acknowledgement takes some time, too."""


@dataclass(slots=True)
class _Term:
    lease: Lease
    since: float
    lock_s: float
    next_look: float
    size: int
    handed_at: float | None = None
    tries: int = 0
    """Renewals sent since the last one that was confirmed."""


@dataclass(frozen=True, slots=True)
class Due:
    """What to do now."""

    renew: list[Lease] = field(default_factory=list)
    release: list[Lease] = field(default_factory=list)
    capped: list[Lease] = field(default_factory=list)
    """Leases that won't be renewed any more; reported once, before they are lost."""


class LeaseKeeper:
    """The deadlines of all leases of a consumer."""

    def __init__(self, *, can_renew: bool, longest_s: float) -> None:
        self.can_renew = can_renew
        self.longest_s = longest_s
        self._terms: dict[int, _Term] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._terms)

    def add(self, lease: Lease, lock_s: float, since: float, size: int = 0) -> None:
        """Acquired by a fetch sent at `since`, with `size` bytes of records; waits in the inbox until `hand_out`."""
        lease.deadline = since + lock_s * (1 - MARGIN)
        self._terms[id(lease)] = _Term(lease, since, lock_s, since + lock_s * RENEW_AFTER, size)
        self._size += size

    def size_held(self, most: int) -> int:
        """Bytes of undecided records. While far below `most` an upper bound is returned, which is cheaper."""
        if 4 * self._size < most:
            return self._size
        return sum(
            term.size * term.lease.undecided // len(term.lease.states)
            for term in self._terms.values()
            if term.size
        )

    def on_suspended(self, seconds: float) -> None:
        """The machine was suspended: the clock stood still for so long, while locks ran on."""
        for term in self._terms.values():
            term.lease.deadline -= seconds
            term.since -= seconds
            term.next_look -= seconds

    def hand_out(self, lease: Lease, now: float) -> bool:
        """The user is about to get it; False if its lock has expired or it was released meanwhile."""
        term = self._terms.get(id(lease))
        if term is None or lease.deadline <= now:
            return False
        term.handed_at = now
        return True

    def handed_at(self, lease: Lease) -> float | None:
        """When the user got it; None while it waits in the inbox, and for unknown leases."""
        term = self._terms.get(id(lease))
        return term.handed_at if term else None

    def remove(self, leases: Iterable[Lease]) -> None:
        """Settled or lost: nothing more to time."""
        for lease in leases:
            term = self._terms.pop(id(lease), None)
            if term:
                self._size -= term.size

    def on_renewed(self, lease: Lease, since: float) -> None:
        """The broker has confirmed a renewal that was sent at `since`."""
        term = self._terms.get(id(lease))
        if term:
            term.tries = 0
            lease.deadline = since + term.lock_s * (1 - MARGIN)
            term.next_look = since + term.lock_s * RENEW_AFTER

    def on_not_renewed(self, lease: Lease) -> None:
        """The broker refused: the lock will expire in time."""
        term = self._terms.get(id(lease))
        if term:
            term.next_look = lease.deadline

    @property
    def wake_at(self) -> float:
        """The earliest time at which `due` returns something or a lock expires."""
        return min([term.next_look for term in self._terms.values()], default=math.inf)

    def due(self, now: float) -> Due:
        due = Due()
        looked_at = [term for term in self._terms.values() if term.next_look <= now]
        # Lost for other reasons than time, such as redelivery to ourselves: nothing to wake up for any more.
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
                # If it isn't confirmed by then, try once more before the lock expires.
                term.next_look = (now + lease.deadline) / 2
