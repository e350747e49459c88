"""What became of acquired records: from the user's word to the broker's.

Each record's state is a byte of its `Lease`.

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
    sent    | a renewal is refused: alone, | held    | the lock runs its time, and what is settled by then counts
            | or whole and in both halves  |         | (the group may forbid renewing: nothing says so but this)
    sent    | refused for another reason   | lost    | moved leader, deleted topic, no permission: reported
    sent    | outcome open                 | lost    | connection broken, no answer: reported as such
    any     | lock ran out, session reset  | lost    | unless settled
    any     | acquired anew                | lost    | unless settled: brokers give only what nobody holds, so
            |                              |         | its lock ran out before we thought; the new lease has it

A renewal is a lease's: of one record it renews all that are held along with it, for a lease has one deadline.

Decides which acknowledgements go out together and what a refusal means. Never decides what the user wants, and never
when to send.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kshare.protocol.error_codes import ErrorCode
from kshare.state.lease import ACCEPT, GAP, HELD, LOST, REJECT, RENEW, SENT, SETTLED, Lease, Partition, table
from kshare.state.session import AckRange

_PIECEWISE = {ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST}
_NOT_NOW = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
}
_HOPELESS = 3
"""Refusals of renewals in a row: of the whole, and of both its halves, which one lost record alone can't explain."""

_Span = tuple[Lease, int, int]
"""Of a lease: first and last offset."""

_TO_DECIDED = table({SENT | kind: kind for kind in range(5)})
_TO_SETTLED = table({SENT | kind: SETTLED for kind in range(4)} | {SENT | RENEW: HELD})
_UNSENT_TO_LOST = table({HELD: LOST} | dict.fromkeys(range(5), LOST))
_RENEW_TO_SENT = table({RENEW: SENT | RENEW})
_SENT_TO_LOST = table({SENT | kind: LOST for kind in range(5)})


class Outcome(NamedTuple):
    """What the broker said of acknowledged records. `error` 0: confirmed."""

    partition: Partition
    ranges: tuple[AckRange, ...]
    error: int
    is_open: bool = False
    """Nobody knows: the connection broke, or the answer was silent. They may have counted."""
    renewed: tuple[Lease, ...] = ()
    """Leases whose lock begins anew with this answer."""
    not_renewed: tuple[Lease, ...] = ()
    """Leases that the broker won't renew; nothing of them is lost by that."""


class PartitionAcks:
    """The leases of one partition from one session, in the order of their offsets."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leases: list[Lease] = []
        self._under_way: list[AckRange] = []
        self._is_renewing = False
        self._renewals_refused = 0
        self._pieces: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
        """Offsets that a refusal undid (of renewals or of the rest), to be sent again piece by piece, each alone."""

    def add(self, lease: Lease) -> tuple[int, list[Outcome]]:
        """How many records older leases lost by it, and what had been decided of these."""
        overlaps = [
            (older, max(older.first, lease.first), min(older.last, lease.last))
            for older in (self.leases if lease.delivery_count > 1 else ())
            if older.first <= lease.last and lease.first <= older.last
        ]
        is_last = not self.leases or self.leases[-1].first < lease.first
        self.leases.append(lease)
        if not is_last:
            self.leases.sort(key=lambda one: one.first)
        if not overlaps:
            return 0, []
        outcomes = self._refused(overlaps, ErrorCode.INVALID_RECORD_STATE)
        return sum(_lose(*overlap) for overlap in overlaps), outcomes

    @property
    def has_decided(self) -> bool:
        for lease in self.leases:
            if lease.has_decided:
                return True
        return False

    @property
    def is_under_way(self) -> bool:
        return bool(self._under_way)

    def take(self, *, renewals: bool) -> list[AckRange]:
        """What goes out next: renewals and other types in separate requests; after a refusal a piece at a time."""
        if self._under_way:
            return []
        self._is_renewing = renewals
        window = self._pieces[renewals].pop(0) if self._pieces[renewals] else None
        lowest, highest = (RENEW, RENEW) if renewals else (GAP, REJECT)
        for lease in self.leases:
            if renewals and window is None and lease.count(RENEW):
                lease.decide_held(RENEW)
            first, last = window or (lease.first, lease.last)
            for start, end in lease.runs_within(first, last, lowest, highest):
                types = lease.send(start, end)
                self._under_way.append(AckRange(lease.first + start, lease.first + end - 1, types))
        if window and not self._under_way:
            return self.take(renewals=renewals)
        # What was given back may have come again while others of its lease are still to be settled.
        self._under_way.sort()
        return self._under_way

    def on_answer(self, error: int) -> list[Outcome]:
        """The broker's word on all that is under way."""
        ranges, self._under_way = self._under_way, []
        if not ranges:
            return []
        if not error:
            renewed = self._being_renewed() if self._is_renewing else ()
            self._renewals_refused = 0
            self._translate(_TO_SETTLED)
            return [Outcome(self.partition, tuple(ranges), 0, renewed=renewed)]
        first, last = ranges[0].first, ranges[-1].last
        if error in _NOT_NOW:
            self._translate(_TO_DECIDED)
            return []
        if self._is_renewing and error in _PIECEWISE:
            self._renewals_refused += 1
            if first == last or self._renewals_refused == _HOPELESS:
                refused = self._renewal_refused(tuple(ranges), error)
                # What was decided meanwhile needs no renewal any more, and goes out by itself.
                return [refused] if refused.not_renewed else []
        if error not in _PIECEWISE or first == last:
            self._translate(_SENT_TO_LOST)
            return [Outcome(self.partition, tuple(ranges), error)]
        self._translate(_TO_DECIDED)
        middle = _middle(ranges)
        self._pieces[self._is_renewing] += [(first, middle - 1), (middle, last)]
        return []

    def _being_renewed(self) -> tuple[Lease, ...]:
        return tuple(lease for lease in self.leases if lease.count(SENT | RENEW))

    def _renewal_refused(self, ranges: tuple[AckRange, ...], error: int) -> Outcome:
        if self._renewals_refused == _HOPELESS:
            self._pieces[True].clear()
            self._renewals_refused = 0
            self._translate(_RENEW_TO_SENT)
        leases = self._being_renewed()
        self._translate(_TO_SETTLED)
        return Outcome(self.partition, ranges, error, not_renewed=leases)

    def on_silence(self) -> list[Outcome]:
        """No word: the outcome stays open, and the records are no longer ours to acknowledge."""
        ranges, self._under_way = self._under_way, []
        self._translate(_SENT_TO_LOST)
        return [Outcome(self.partition, tuple(ranges), 0, is_open=True)] if ranges else []

    def lose(self) -> list[Outcome]:
        """The session is gone, and with it every lock: what is under way is open, what wasn't sent is refused."""
        outcomes = self.on_silence() + self._refused(_whole(self.leases), ErrorCode.SHARE_SESSION_NOT_FOUND)
        for lease in self.leases:
            lease.lose()
        self.leases, self._pieces = [], {False: [], True: []}
        return outcomes

    def expire(self, now: float) -> tuple[list[Lease], list[Outcome]]:
        """Leases whose lock ran out: what wasn't sent yet is left out from now on, and counts as refused."""
        late = [lease for lease in self.leases if lease.deadline <= now and not lease.is_done]
        outcomes = self._refused(_whole(late), ErrorCode.INVALID_RECORD_STATE)
        for lease in late:
            lease.translate(_UNSENT_TO_LOST)
        return late, outcomes

    def _refused(self, spans: Iterable[_Span], error: int) -> list[Outcome]:
        """What the user decided of these and will never be sent."""
        ranges = tuple(
            AckRange(lease.first + start, lease.first + end - 1, bytes(lease.states[start:end]))
            for lease, first, last in spans
            # The user's word; gaps and renewals are nobody's loss.
            for start, end in lease.runs_within(first, last, ACCEPT, REJECT)
        )
        return [Outcome(self.partition, ranges, error)] if ranges else []

    def forget_done(self) -> list[Lease]:
        """Those of whose records every one is settled or lost."""
        done: list[Lease] = []
        left: list[Lease] = []
        for lease in self.leases:
            (done if lease.is_done else left).append(lease)
        self.leases = left
        return done

    def _translate(self, changes: bytes) -> None:
        for lease in self.leases:
            lease.translate(changes)


def _whole(leases: Iterable[Lease]) -> list[_Span]:
    return [(lease, lease.first, lease.last) for lease in leases]


def _lose(lease: Lease, first: int, last: int) -> int:
    """How many of these offsets weren't settled yet."""
    lost = 0
    for offset in range(first, last + 1):
        # What is decided is counted as undecided no more.
        if lease.decide(offset, GAP):
            lease.states[offset - lease.first] = LOST
            lost += 1
    return lost


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
