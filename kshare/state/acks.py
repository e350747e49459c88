"""The acknowledgements of one partition: from the user's decision to the broker's confirmation.

Each record's state is one byte of its `Lease`.

    state   | event                        | next    | note
    --------+------------------------------+---------+---------------------------------------------------
    held    | decide(type)                 | decided | may be changed until it is sent
    decided | take                         | sent    | as ranges, ascending, one type or one per offset
    sent    | confirmed                    | settled | renewals: held again
    sent    | decide, while it is a renewal| decided | the renewal only bought time for this decision, unless that is
            |                              |         | to renew: then nothing changes
    sent    | refused along with others    | decided | one bad range makes the broker refuse all of a partition's
            |                              |         | ranges: they are sent again in halves (`retries`)
    sent    | refused alone                | lost    | the broker no longer has this record locked for us
    decided | refused too often in parts   | lost    | the whole lease is lost, held records included: a
            |                              |         | logarithmic number of requests shows that
    sent    | not now                      | decided | the share coordinator is moving: nothing was done, try again
    sent    | a renewal of a whole lease   | held    | the lock runs out in time; what is settled by then counts
            | is refused: alone, or as a   |         | (only this shows that the group forbids renewing)
            | whole and in both halves     |         |
    sent    | a renewal is refused, while  | lost    | the broker no longer has this record locked for us; the
            | others of its lease are not  |         | rest of its lease is renewed again, as a whole
    sent    | refused for another reason   | lost    | leader moved, topic deleted, no permission: reported
    sent    | outcome open                 | lost    | connection broken, no response: reported as such
    any     | lock expired, session reset  | lost    | unless settled
    any     | acquired again               | lost    | unless settled: brokers only hand out unlocked records, so
            |                              |         | the lock expired earlier than we thought; the new lease has it

Renewing one record renews everything that is held in its lease, since a lease has one deadline. For the same reason a
lease counts as renewed only if one response confirms that for everything in it that is held.

While refused acknowledgements are sent again, requests alternate between them and newly decided ones.

Decides which acknowledgements go out together and what a refusal means. Never decides what the user wants, nor when to
send.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

from kshare.offset_ranges import without
from kshare.protocol.acknowledge_types import AcknowledgeType
from kshare.protocol.error_codes import ErrorCode
from kshare.state.ack_retries import AckRetries, LeaseRange, RetryPart, SentRange
from kshare.state.lease import (
    GAP,
    HELD,
    LOST,
    RENEW,
    SENT,
    SETTLED,
    Lease,
    TopicIdPartition,
    state_ranges,
    translation_table,
)
from kshare.state.session import AckRange

_PIECEWISE = {ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST}
_SHORT = 64
_first_of = attrgetter("first")
RETRY_LATER = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
}

_RENEWALS = state_ranges([RENEW])
_FINAL = state_ranges(kind for kind in AcknowledgeType if kind.is_final)
_USERS = state_ranges(kind for kind in AcknowledgeType if kind.is_final and kind != GAP)
"""The user's own decisions: gaps and renewals don't concern the user."""

_TO_DECIDED = translation_table({SENT | kind: kind for kind in AcknowledgeType})
_TO_SETTLED = translation_table({SENT | kind: SETTLED if kind.is_final else HELD for kind in AcknowledgeType})
_UNSENT_TO_LOST = translation_table({HELD: LOST} | dict.fromkeys(AcknowledgeType, LOST))
_EXPIRED_TO_LOST = translation_table({HELD: LOST, SENT | RENEW: LOST} | dict.fromkeys(AcknowledgeType, LOST))
"""An acceptance that is under way may still be confirmed. A renewal that is under way saves nothing: it is too late."""
_SENT_TO_LOST = translation_table({SENT | kind: LOST for kind in AcknowledgeType})


class AckOutcome(NamedTuple):
    """The broker's response for some acknowledged records. `error` 0: confirmed."""

    partition: TopicIdPartition
    ranges: tuple[AckRange, ...]
    error: int
    is_open: bool = False
    """Unknown: the connection broke, or the response doesn't mention them. The broker may have applied them."""
    renewed: tuple[Lease, ...] = ()
    """Leases whose lock this response has renewed."""
    not_renewed: tuple[Lease, ...] = ()
    """Leases that the broker won't renew; that alone loses no record."""
    locks_lost: tuple[LeaseRange, ...] = ()
    """Undecided records that are lost: others of their lease were renewed, but not these."""
    given_up: int = 0
    """Undecided records that are lost along with these: the broker no longer has their leases locked for us."""


class PartitionAcks:
    """The leases of one partition from one session, in the order of their offsets."""

    def __init__(self, partition: TopicIdPartition) -> None:
        self.partition = partition
        self.leases: list[Lease] = []
        self._highest = -1
        """The highest offset of any lease so far."""
        self._long: list[Lease] = []
        """Leases with more than `_SHORT` records, in the order in which they were added."""
        self._under_way: list[AckRange] = []
        self._sent: list[SentRange] = []
        """The same, in order and with the leases."""
        self._is_renewing = False
        self._retries = {False: AckRetries(of_renewals=False), True: AckRetries(of_renewals=True)}
        self._partly_renewed: dict[Lease, int] = {}
        """Leases that are renewed in parts, and how many of their records were refused together before."""
        self._part: RetryPart | None = None
        """What is under way, if it was refused before along with others."""
        self._is_retry_next = False

    def add(self, lease: Lease) -> tuple[int, list[AckOutcome]]:
        """Returns how many records older leases lose to this one, and the outcomes of those that were decided."""
        is_new = lease.first > self._highest
        self._highest = max(self._highest, lease.last)
        if len(lease.states) > _SHORT:
            self._long.append(lease)
        if is_new:
            self.leases.append(lease)
            return 0, []
        overlaps = [
            (older, max(older.first, lease.first), min(older.last, lease.last))
            for older in self.overlapping(lease.first, lease.last)
        ]
        insort(self.leases, lease, key=_first_of)
        if not overlaps:
            return 0, []
        outcomes = self._refused(overlaps, ErrorCode.INVALID_RECORD_STATE)
        return sum(_lose(*overlap) for overlap in overlaps), outcomes

    def overlapping(self, first: int, last: int) -> list[Lease]:
        """Leases with records between these offsets.

        A partition may have a lease for each of thousands of records, and each new one asks for this. So only long
        leases are looked at wherever they begin: there are few.
        """
        begin = bisect_left(self.leases, first - _SHORT + 1, key=_first_of)
        end = bisect_right(self.leases, last, key=_first_of)
        found = [lease for lease in self._long if lease.first <= first - _SHORT and lease.last >= first]
        return found + [lease for lease in self.leases[begin:end] if lease.last >= first]

    @property
    def has_decided(self) -> bool:
        for lease in self.leases:
            if lease.has_decided:
                return True
        return False

    @property
    def is_under_way(self) -> bool:
        return bool(self._under_way)

    @property
    def has_retries(self) -> bool:
        """Refused acknowledgements have to be sent again, part by part."""
        return self._retries[False].is_open or self._retries[True].is_open

    def take(self, *, renewals: bool) -> list[AckRange]:
        """What to send next: renewals and other types in separate requests; after a refusal, one part at a time."""
        if self._under_way:
            return []
        self._is_renewing = renewals
        if not self._retries[renewals].is_open:
            for lease in self.leases:
                self._renew_all_held(lease)
                self._mark_sent(lease, lease.first, lease.last)
        else:
            self._is_retry_next = not self._is_retry_next
            sources = (self._take_retry, self._take_new)
            for send in sources if self._is_retry_next else reversed(sources):
                if not self._under_way:
                    send()
        # Released records may have been redelivered while others of their lease are still unsettled.
        self._under_way.sort()
        return self._under_way

    def _mark_sent(self, lease: Lease, first: int, last: int) -> None:
        for start, end in lease.runs_in(first, last, _RENEWALS if self._is_renewing else _FINAL):
            types = lease.send(start, end)
            sent = AckRange(lease.first + start, lease.first + end - 1, types)
            self._under_way.append(sent)
            self._sent.append((lease, sent.first, sent.last))

    def _renew_all_held(self, lease: Lease) -> None:
        if self._is_renewing and lease.count(RENEW):
            lease.decide_held(RENEW)

    def _take_retry(self) -> None:
        """The next part of which anything is left: leases may have expired meanwhile."""
        retries = self._retries[self._is_renewing]
        while not self._under_way and (part := retries.next_part()) is not None:
            self._part = part
            for lease, first, last in part.lease_ranges:
                self._mark_sent(lease, first, last)
        if not self._under_way:
            self._part = None

    def _take_new(self) -> None:
        """Everything that isn't waiting to be retried."""
        open_ranges = self._retries[self._is_renewing].open_ranges()
        for lease in self.leases:
            self._renew_all_held(lease)
            for first, last in without([(lease.first, lease.last)], open_ranges.get(lease, ())):
                self._mark_sent(lease, first, last)

    def on_response(self, error: int) -> list[AckOutcome]:
        """The broker has responded for everything under way."""
        ranges, sent, part = self._under_way, self._sent, self._part
        self._under_way, self._sent, self._part = [], [], None
        if not ranges:
            return []
        retries = self._retries[self._is_renewing]
        if not error:
            renewed = self._being_renewed() if self._is_renewing else ()
            self._translate(_TO_SETTLED)
            outcomes = [AckOutcome(self.partition, tuple(ranges), 0, renewed=renewed)]
            if part is not None:
                outcomes += self._locks_lost(retries.on_confirmed(part), ErrorCode.INVALID_RECORD_STATE)
                if self._is_renewing and not part.is_whole:
                    self._partly_renewed[part.lease_ranges[0][0]] = part.whole.size
            self._renew_rest()
            return outcomes
        if error in RETRY_LATER:
            self._translate(_TO_DECIDED)
            if part is not None:
                retries.put_back(part)
            return []
        if error not in _PIECEWISE:
            self._translate(_SENT_TO_LOST)
            return [AckOutcome(self.partition, tuple(ranges), error)]
        self._translate(_TO_DECIDED)
        is_whole, given_up = retries.on_refused(part, sent)
        if not given_up:
            return []
        if not self._is_renewing:
            return self._lost(given_up, error, is_whole)
        outcomes = (self._renewals_refused if is_whole else self._locks_lost)(given_up, error)
        self._renew_rest()
        return outcomes

    def _being_renewed(self) -> tuple[Lease, ...]:
        """Leases of which everything that is held is being renewed: a part of one doesn't move its deadline."""
        return tuple(
            lease
            for lease in self.leases
            if lease.count(SENT | RENEW) and not lease.count(HELD) and not lease.count(RENEW)
        )

    def _locks_lost(self, lease_ranges: Iterable[LeaseRange], error: int) -> list[AckOutcome]:
        """Others of these leases were renewed, but not these. Those decided meanwhile are sent all the same."""
        lost = [
            (lease, *span)
            for lease, first, last in lease_ranges
            for span in lease.spans_in(first, last, _RENEWALS)
        ]
        for lost_range in lost:
            _lose(*lost_range)
        return [AckOutcome(self.partition, (), error, locks_lost=tuple(lost))] if lost else []

    def _renew_rest(self) -> None:
        """Renew leases as a whole that were renewed in parts, once all parts are through.

        Unless nothing of them was lost or decided meanwhile: a broker that refuses every whole would be asked for ever.
        """
        if self._partly_renewed:
            open_ranges = self._retries[True].open_ranges()
            for lease in [lease for lease in self._partly_renewed if lease not in open_ranges]:
                if lease.undecided < self._partly_renewed.pop(lease):
                    lease.decide_held(RENEW)

    def _renewals_refused(self, lease_ranges: Iterable[LeaseRange], error: int) -> list[AckOutcome]:
        """These keep their current lock; records decided meanwhile need no renewal and are sent by themselves."""
        ranges: list[AckRange] = []
        leases: dict[int, Lease] = {}
        for lease, first, last in lease_ranges:
            for start, end in lease.runs_in(first, last, _RENEWALS):
                lease.states[start:end] = bytes([HELD]) * (end - start)
                ranges.append(AckRange(lease.first + start, lease.first + end - 1, bytes([RENEW])))
                leases[lease.first] = lease
        refused = AckOutcome(
            self.partition,
            tuple(sorted(ranges)),
            error,
            not_renewed=tuple(leases[key] for key in sorted(leases)),
        )
        return [refused] if ranges else []

    def _lost(self, lease_ranges: list[LeaseRange], error: int, are_leases_lost: bool) -> list[AckOutcome]:
        """Loses what is decided in these ranges; if the leases are lost, everything unsettled in them as well."""
        if are_leases_lost:
            lease_ranges = [
                (lease, lease.first, lease.last)
                for lease in dict.fromkeys(range_[0] for range_ in lease_ranges)
            ]
        ranges: list[AckRange] = []
        given_up = 0
        for lease, first, last in lease_ranges:
            for start, end in lease.runs_in(first, last, _FINAL):
                types = bytes(lease.states[start:end])
                ranges.append(AckRange(lease.first + start, lease.first + end - 1, types))
                lease.states[start:end] = bytes([LOST]) * (end - start)
            if are_leases_lost:
                given_up += lease.undecided
                lease.translate(_UNSENT_TO_LOST)
        return [AckOutcome(self.partition, tuple(sorted(ranges)), error, given_up=given_up)]

    def on_no_response(self) -> list[AckOutcome]:
        """No response: the outcome is open, and the records can no longer be acknowledged."""
        ranges, self._under_way, self._sent, self._part = self._under_way, [], [], None
        self._translate(_SENT_TO_LOST)
        return [AckOutcome(self.partition, tuple(ranges), 0, is_open=True)] if ranges else []

    def lose(self) -> list[AckOutcome]:
        """The session ended, and every lock with it: what is under way is open, what wasn't sent counts as refused."""
        outcomes = self.on_no_response() + self._refused(
            _all_records(self.leases), ErrorCode.SHARE_SESSION_NOT_FOUND
        )
        for lease in self.leases:
            lease.lose()
        self.leases, self._long = [], []
        self._partly_renewed = {}
        for retries in self._retries.values():
            retries.clear()
        return outcomes

    def expire(self, now: float) -> tuple[list[Lease], list[AckOutcome]]:
        """Returns leases whose lock has expired: what wasn't sent will never be, and counts as refused."""
        expired = [lease for lease in self.leases if lease.deadline <= now and not lease.is_done]
        outcomes = self._refused(_all_records(expired), ErrorCode.INVALID_RECORD_STATE)
        for lease in expired:
            lease.translate(_EXPIRED_TO_LOST)
        return expired, outcomes

    def _refused(self, lease_ranges: Iterable[LeaseRange], error: int) -> list[AckOutcome]:
        """Outcomes for decisions of the user's that will never be sent."""
        ranges = tuple(
            AckRange(lease.first + start, lease.first + end - 1, bytes(lease.states[start:end]))
            for lease, first, last in lease_ranges
            for start, end in lease.runs_in(first, last, _USERS)
        )
        return [AckOutcome(self.partition, ranges, error)] if ranges else []

    def forget_done(self) -> list[Lease]:
        """Removes and returns the leases of which every record is settled or lost."""
        done: list[Lease] = []
        remaining: list[Lease] = []
        for lease in self.leases:
            (done if lease.is_done else remaining).append(lease)
        self.leases = remaining
        if done:
            self._long = [lease for lease in remaining if len(lease.states) > _SHORT]
        return done

    def _translate(self, changes: bytes) -> None:
        for lease in self.leases:
            lease.translate(changes)


def _all_records(leases: Iterable[Lease]) -> list[LeaseRange]:
    return [(lease, lease.first, lease.last) for lease in leases]


def _lose(lease: Lease, first: int, last: int) -> int:
    """Marks these offsets as lost; returns how many weren't settled yet."""
    count = 0
    for offset in range(first, last + 1):
        # Deciding first keeps the count of undecided records right.
        if lease.decide(offset, GAP):
            lease.states[offset - lease.first] = LOST
            count += 1
    return count
