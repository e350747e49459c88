"""When leases have to be renewed, released, or given up as expired.

A lock starts when the broker acquires, some time after the fetch was sent, so it is counted from the sending. The
response may be read much later: the event loop may be blocked, or the machine suspended.

    records are       | after 2/3 of the lock              | when the lock expires
    ------------------+------------------------------------+-------------------------------------------------------
    waiting in the    | released, so that another consumer | not handed out (rule 9)
    inbox             | gets them                          |
    in the user's     | renewed, if broker and group allow | lost: reported to the user, left out of
    hands             | it, for up to `max_lease_s` in all   | acknowledgements
    kept on purpose   | the same; if they can't be renewed,  | the same
    (`kept_records`)  | they are released                    |
    kept for good     | renewed, without end; if they can't  | the same
                      | be renewed, nothing                  |

Decides what to renew, to release and to count as lost at a given time. Never sends anything; times are passed in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kshare.state.lease import Lease

RENEW_LOCK_AFTER = 2 / 3
"""Fraction of the lock: late enough to cost little, early enough for a second attempt."""
_TOGETHER = 0.05
"""Fraction of the lock: what is due so soon is renewed, or released, at the same time. Otherwise, each of hundreds of
records that were acquired one by one would take a request of its own."""
MARGIN = 0.05
"""Fraction of the lock, taken off its end: sending the acknowledgement takes some time, too."""


@dataclass(slots=True)
class _LeaseTimer:
    lease: Lease
    since: float
    lock_s: float
    next_check: float
    size: int
    handed_out_at: float | None = None
    is_kept: bool = False
    is_for_good: bool = False
    attempts: int = 0
    """Renewals sent since the last one that was confirmed."""

    def is_due_soon(self, now: float) -> bool:
        """Not if it was renewed in vain, or given up: then it is looked at again before its lock expires, or after."""
        is_first = self.attempts == 0 and self.next_check < self.lease.deadline
        return is_first and self.next_check <= now + self.lock_s * _TOGETHER


@dataclass(frozen=True, slots=True)
class Due:
    """What to do now."""

    renew: list[Lease] = field(default_factory=list)
    release: list[Lease] = field(default_factory=list)
    not_renewable: list[Lease] = field(default_factory=list)
    """Leases that will no longer be renewed; reported once, before they are lost."""


class LeaseTimers:
    """The deadlines of all leases of a consumer."""

    def __init__(self, *, can_renew: bool, max_lease_s: float, no_renewal_because: str = "") -> None:
        """`no_renewal_because` is the reason for users, if locks can't be renewed."""
        self.can_renew = can_renew
        self.no_renewal_because = no_renewal_because
        self.max_lease_s = max_lease_s
        self._timers: dict[int, _LeaseTimer] = {}
        self._size = 0
        self._wake_at = math.inf

    def __len__(self) -> int:
        return len(self._timers)

    def add(self, lease: Lease, lock_s: float, sent_at: float, size: int = 0) -> None:
        """Acquired by a fetch sent at `sent_at`, with `size` bytes of records; waits in the inbox until `hand_out`."""
        lease.deadline = sent_at + lock_s * (1 - MARGIN)
        timer = _LeaseTimer(lease, sent_at, lock_s, sent_at + lock_s * RENEW_LOCK_AFTER, size)
        self._timers[id(lease)] = timer
        self._wake_at = min(self._wake_at, timer.next_check)
        self._size += size

    def bytes_held(self, max_bytes: int) -> int:
        """Bytes of undecided records. While far below `max_bytes` an upper bound is returned, which is cheaper."""
        if 4 * self._size < max_bytes:
            return self._size
        return sum(
            timer.size * timer.lease.undecided // len(timer.lease.states)
            for timer in self._timers.values()
            if timer.size
        )

    def on_suspended(self, seconds: float) -> None:
        """The machine was suspended for this long: the clock stood still, but locks continued to run out."""
        for timer in self._timers.values():
            timer.lease.deadline -= seconds
            timer.since -= seconds
            timer.next_check -= seconds
        self._wake_at -= seconds

    def hand_out(self, lease: Lease, now: float) -> bool:
        """The user is about to get it; False if its lock has expired or it was released meanwhile."""
        timer = self._timers.get(id(lease))
        if timer is None or lease.deadline <= now:
            return False
        timer.handed_out_at = now
        return True

    def keep(self, lease: Lease) -> None:
        """Renew its lock although nobody gets its records, for as long as that is possible. Their bytes aren't held."""
        timer = self._timers.get(id(lease))
        if timer is not None:
            timer.is_kept = True
            self._size -= timer.size
            timer.size = 0

    def keep_for_good(self, part: Lease, lease: Lease) -> None:
        """`part` has records that were in `lease`, so it has the same lock. It is renewed, and never released."""
        timer = self._timers.get(id(lease))
        if timer is not None:
            part.deadline = lease.deadline
            self._timers[id(part)] = replace(timer, lease=part, size=0, is_kept=True, is_for_good=True)

    def is_for_good(self, lease: Lease) -> bool:
        timer = self._timers.get(id(lease))
        return timer is not None and timer.is_for_good

    def handed_out_at(self, lease: Lease) -> float | None:
        """When the user got it; None while it waits in the inbox, and for unknown leases."""
        timer = self._timers.get(id(lease))
        return timer.handed_out_at if timer else None

    def remove(self, leases: Iterable[Lease]) -> None:
        """Settled or lost: nothing more to time."""
        for lease in leases:
            timer = self._timers.pop(id(lease), None)
            if timer:
                self._size -= timer.size

    def on_renewed(self, lease: Lease, sent_at: float, lock_s: float = 0.0) -> None:
        """The broker has confirmed a renewal that was sent at `sent_at`.

        `lock_s` is the duration that it says: the group's setting may have changed. 0 if it doesn't say.
        """
        timer = self._timers.get(id(lease))
        if timer:
            timer.lock_s = lock_s or timer.lock_s
            timer.attempts = 0
            lease.deadline = sent_at + timer.lock_s * (1 - MARGIN)
            timer.next_check = sent_at + timer.lock_s * RENEW_LOCK_AFTER
            self._wake_at = min(self._wake_at, timer.next_check)

    def on_not_renewed(self, lease: Lease) -> None:
        """The broker refused: the lock will expire in time."""
        timer = self._timers.get(id(lease))
        if timer:
            timer.next_check = lease.deadline
            self._wake_at = min(self._wake_at, timer.next_check)

    @property
    def wake_at(self) -> float:
        """Before this time, `due` returns nothing, and no lock expires.

        It may be too early: looking for the earliest of thousands of timers each time took seconds.
        """
        return self._wake_at if self._timers else math.inf

    def due(self, now: float) -> Due:
        due = Due()
        due_timers = [timer for timer in self._timers.values() if timer.next_check <= now]
        # Lost for other reasons than time, such as redelivery to ourselves: nothing to wake up for any more.
        self.remove(timer.lease for timer in due_timers if timer.lease.is_done)
        for timer in due_timers:
            if timer.lease.deadline > now:
                self._decide(timer, now, due)
        if due.renew or due.release:
            for timer in [timer for timer in self._timers.values() if timer.is_due_soon(now)]:
                self._decide(timer, now, due)
        self._wake_at = min([timer.next_check for timer in self._timers.values()], default=math.inf)
        return due

    def _decide(self, timer: _LeaseTimer, now: float, due: Due) -> None:
        lease = timer.lease
        timer.next_check = lease.deadline
        if not lease.undecided:
            return
        is_renewable = self.can_renew and (timer.is_for_good or now - timer.since < self.max_lease_s)
        if timer.is_for_good and not is_renewable:
            due.not_renewable.append(lease)
        elif timer.handed_out_at is None and not (timer.is_kept and is_renewable):
            due.release.append(lease)
        elif not is_renewable:
            due.not_renewable.append(lease)
        else:
            due.renew.append(lease)
            timer.attempts += 1
            if timer.attempts == 1:
                # If it isn't confirmed by then, try once more before the lock expires.
                timer.next_check = (now + lease.deadline) / 2
