"""What consumers promise besides what the storm's judge looks at: about time, and about what mustn't be forgotten.

- handed late: a program got a record whose lock had run out at the broker by then, or was given up by its own client
- kept: a loop was left in the middle of a record, another loop went on, and the record's lock was renewed, twice
- without outcome: an accept was sent, and `on_settled` was never told anything of it

If nothing disturbs requests and responses, also:

- not told: a broker has confirmed an accept, and `on_settled` was never told of it
- loss not told: a program held a record, undecided, whose lock had run out, and which was delivered again, and `commit`
  said nothing of its partition
- forgotten: a program has finished or rejected a record in time, and its client never asked a broker to accept or to
  reject it. It is delivered again then, as if its process had died

Pure. Knows what programs wrote down, and what passed over connections.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from math import inf

from tests.integration.consumer_storm.diary import Entry, Event
from tests.integration.consumer_storm.fault_book import Acknowledged, Acquired
from tests.integration.consumer_storm.judging import ACCEPT, REJECT, RENEW, Place, Witness

_GOES_ON_S = 1.0
"""When another loop has got a record, what the last one was left with has been given back soon afterwards."""
_UNDER_WAY_S = 0.3
"""While a renewal is under way, a client can't know whether its lock has run out."""
_CLOSING_S = 3.0
_IN_TIME = 0.5
"""The share of a lock that has to be left for a decision to be sent: a fetch that is under way has to end first."""
_DECISIONS = {Event.ENDED: ACCEPT, Event.ACCEPTS: ACCEPT, Event.REJECTS: REJECT}
_STALL_LOCKS = 1.25
_OF_RECORDS = (*_DECISIONS, Event.HANDED, Event.UNREADABLE, Event.RELEASED, Event.TOO_LATE, Event.ABANDONED)
STALLED = "stalled body"
"""What a program notes before it lets everybody stand still."""
DESCHEDULED = "descheduled"
"""What is noted after the system has let one of its threads stand still."""


class Promises:
    def __init__(
        self,
        witnesses: Sequence[Witness],
        acquired: Sequence[Acquired],
        acknowledged: Sequence[Acknowledged],
        lock_s: Callable[[float], float],
    ) -> None:
        """`lock_s`: for how long brokers lock what is acquired or renewed at a time."""
        self._lock_s = lock_s
        self._witnesses = [witness for witness in witnesses if not witness.was_killed]
        self._acquired: dict[tuple[str, Place], list[float]] = defaultdict(list)
        self._counted: dict[tuple[str, Place, int], list[float]] = defaultdict(list)
        """When a member acquired a record with this delivery count: more than once if brokers have lost the count."""
        self._deliveries: dict[Place, list[float]] = defaultdict(list)
        for span in acquired:
            for offset in range(span.first, span.last + 1):
                self._acquired[span.member, (span.partition, offset)].append(span.at)
                self._counted[span.member, (span.partition, offset), span.delivery].append(span.at)
                self._deliveries[span.partition, offset].append(span.at)
        self._sent: dict[tuple[str, Place], list[tuple[int, Acknowledged]]] = defaultdict(list)
        for row in acknowledged:
            for offset in range(row.first, row.last + 1):
                self._sent[row.member, (row.partition, offset)].append((row.kind_of(offset), row))
        for times in (*self._acquired.values(), *self._deliveries.values()):
            times.sort()
        entries = (entry for witness in witnesses for entry in witness.entries)
        did = sorted((entry.at, entry.text) for entry in entries if entry.event is Event.DID)
        self._stalls = [at for at, text in did if text == STALLED]
        self._pauses = [at for at, text in did if text == DESCHEDULED]

    def broken(self, *, is_smooth: bool, is_uninterrupted: bool = True) -> dict[str, list[str]]:
        """`is_smooth`: nothing happens to requests, responses and connections, and leaders stay.

        `is_uninterrupted`: no signal keeps programs from asking for the next record, once they have finished one.
        """
        found = {
            "handed late": [*self._handed_late()],
            "without outcome": [*self._without_outcome()],
        }
        if is_smooth:
            found |= {
                "kept": [*self._kept()],
                "not told": [*self._untold()],
                "loss not told": [*self._losses_untold()],
            }
        if is_smooth and is_uninterrupted:
            found["forgotten"] = [*self._forgotten()]
        return found

    def _entries(self, *events: Event) -> Iterator[Entry]:
        return (entry for witness in self._witnesses for entry in witness.entries if entry.event in events)

    def _locked_until(self, member: str, place: Place, now: float) -> float | None:
        """The latest time at which the lock may run out that this member had at that time. None if it never had one."""
        times = self._acquired.get((member, place), [])
        index = bisect_right(times, now)
        if not index:
            return None
        renewed = [
            row.responded_at
            for kind, row in self._sent.get((member, place), ())
            if kind == RENEW and row.error == 0 and row.at <= now
        ]
        latest = max([times[index - 1], *(at for at in renewed if at <= now)])
        until = latest + self._lock_s(latest)
        # A response that isn't there yet: the broker may have renewed it by now.
        return max(until, now + self._lock_s(now)) if any(at > now for at in renewed) else until

    def _handed_late(self) -> Iterator[str]:
        for entry in self._entries(Event.HANDED):
            place = entry.partition, entry.offset
            until = self._locked_until(entry.member, place, entry.at)
            is_late = until is not None and entry.at > until and not _is_any(self._pauses, until, entry.at)
            if until is not None and is_late:
                late = f"{entry.at - until:.3f} s after its lock had run out"
                yield f"{place}: {late}, at {entry.at:.3f}, to {entry.member}"
            if self._was_settled(entry):
                yield f"{place}: settled before, at {entry.at:.3f}, to {entry.member}"

    def _was_settled(self, entry: Entry) -> bool:
        """Whether it was settled between its acquisition and then, whichever acquisition it was.

        A response of a former leader may come late, after the new one's. Then each leader's record was settled by
        itself.
        """
        place = entry.partition, entry.offset
        times = self._acquired.get((entry.member, place), [])
        counted = [at for at in self._counted[entry.member, place, entry.delivery] if at <= entry.at]
        settled = [
            row
            for kind, row in self._sent.get((entry.member, place), ())
            if kind != RENEW and row.error == 0 and row.responded_at < entry.at
        ]
        return bool(counted) and all(
            any(
                since < row.responded_at
                # Otherwise it was a later one that was settled.
                and bisect_right(times, since) == bisect_right(times, row.at)
                for row in settled
            )
            for since in counted
        )

    def _kept(self) -> Iterator[str]:
        handed: dict[str, list[float]] = defaultdict(list)
        for entry in self._entries(Event.HANDED):
            handed[entry.member].append(entry.at)
        for entry in self._entries(Event.ABANDONED):
            place, times = (entry.partition, entry.offset), sorted(handed[entry.member])
            index = bisect_right(times, entry.at)
            if index == len(times):
                continue
            going_on = times[index] + _GOES_ON_S
            again = bisect_right(self._deliveries[place], entry.at)
            until = [*self._deliveries[place], inf][again]
            renewals = [
                row
                for kind, row in self._sent.get((entry.member, place), ())
                if kind == RENEW and going_on < row.at < until
            ]
            if len(renewals) > 1:
                yield f"{place}: left at {entry.at:.3f}, renewed at {renewals[-1].at:.3f}, by {entry.member}"

    def _has_stalled(self, first: float, last: float) -> bool:
        """Whether everybody has stood still in between, or until then: it takes a little longer than a lock lasts."""
        return _is_any(self._stalls, first - _STALL_LOCKS * self._lock_s(first), last)

    def _untold(self) -> Iterator[str]:
        told = self._told(Event.CONFIRMED)
        members = {entry.member for entry in self._entries(Event.DID)}
        for (member, place), rows in self._sent.items():
            for kind, row in rows:
                is_confirmed = kind == ACCEPT and row.error == 0 and member in members
                if is_confirmed and (member, place) not in told:
                    if not self._has_stalled(row.at - _CLOSING_S, row.responded_at):
                        yield f"{place}: confirmed at {row.responded_at:.3f} to {member}"
                    break

    def _without_outcome(self) -> Iterator[str]:
        members = {entry.member for entry in self._entries(Event.DID)}
        told = self._told(Event.CONFIRMED, Event.REFUSED)
        for (member, place), rows in self._sent.items():
            accepts = [row for kind, row in rows if kind == ACCEPT]
            if accepts and member in members and (member, place) not in told:
                yield f"{place}: accepted at {accepts[0].at:.3f} by {member}, error {accepts[0].error}"

    def _losses_untold(self) -> Iterator[str]:
        """Records that a program held, undecided, when their lock had run out and others had got them."""
        held: dict[tuple[str, Place], Entry] = {}
        commits: dict[str, list[Entry]] = defaultdict(list)
        raised: dict[tuple[str, int], float] = {}
        """When a member was last told by an error of `accept` that it had lost records of a partition."""
        asked: dict[str, float] = {}
        for entry in sorted(self._entries(*_OF_RECORDS, Event.COMMITS, Event.COMMITTED)):
            if entry.event is Event.COMMITS:
                asked[entry.member] = entry.at
            elif entry.event is Event.COMMITTED:
                commits[entry.member].append(entry)
                for (member, place), handed in [*held.items()]:
                    if member != entry.member or not self._is_lost_by(handed, asked[member]):
                        continue
                    del held[member, place]
                    told = {
                        text
                        for commit in commits[member]
                        if commit.at >= handed.at
                        for text in commit.text.split(",")
                    }
                    if str(place[0]) not in told and raised.get((member, place[0]), 0.0) < handed.at:
                        yield f"{place}: handed out at {handed.at:.3f}, lost, not told by {entry.at:.3f} to {member}"
            elif entry.event is Event.HANDED:
                held[entry.member, (entry.partition, entry.offset)] = entry
            else:
                held.pop((entry.member, (entry.partition, entry.offset)), None)
                if entry.event is Event.TOO_LATE:
                    raised[entry.member, entry.partition] = entry.at

    def _is_lost_by(self, handed: Entry, now: float) -> bool:
        """Whether its lock has run out by then, and it was delivered again, but not because its client gave it back."""
        place = handed.partition, handed.offset
        if any(kind != RENEW and handed.at <= row.at for kind, row in self._sent[handed.member, place]):
            return False
        until = self._locked_until(handed.member, place, now)
        return (
            until is not None
            and until + _UNDER_WAY_S < now
            and _is_any(self._deliveries[place], handed.at, now)
        )

    def _told(self, *events: Event) -> set[tuple[str, Place]]:
        """Whose accepts `on_settled` was told of in these ways."""
        return {
            (entry.member, (entry.partition, offset))
            for entry in self._entries(*events)
            for offset in range(entry.offset, int(entry.text) + 1)
        }

    def _forgotten(self) -> Iterator[str]:
        closed = {entry.member for entry in self._entries(Event.DID) if entry.text == "closed"}
        closing: dict[str, float] = {}
        """When another task or a signal handler began to close a consumer, which gives back what is in hand."""
        for entry in self._entries(Event.DID):
            if entry.text.startswith("closed by"):
                closing.setdefault(entry.member, entry.at)
        by_record: dict[tuple[str, Place], list[Entry]] = defaultdict(list)
        for entry in self._entries(*_OF_RECORDS):
            if entry.member in closed:
                by_record[entry.member, (entry.partition, entry.offset)].append(entry)
        for (member, place), entries in by_record.items():
            for entry, following in zip(entries, [*entries[1:], None], strict=True):
                is_last = following is None or following.event in (Event.HANDED, Event.UNREADABLE)
                wanted = _DECISIONS.get(entry.event) if is_last else None
                if wanted is None or self._came_again(entries, entry) or not self._is_in_time(entry):
                    continue
                if entry.at >= closing.get(member, inf):
                    continue
                if not self._was_sent(member, place, entry.at, wanted):
                    yield f"{place}: {entry.event} at {entry.at:.3f}, never sent by {member}"

    def _came_again(self, entries: Sequence[Entry], entry: Entry) -> bool:
        """Whether this delivery had lost its lock: the record was delivered again before the program had decided."""
        handed = [
            other.at
            for other in entries
            if other.event in (Event.HANDED, Event.UNREADABLE) and other.delivery == entry.delivery
        ]
        times = self._deliveries[entry.partition, entry.offset]
        return not handed or _is_any(times, handed[0], entry.at)

    def _is_in_time(self, entry: Entry) -> bool:
        at = entry.at
        until = self._locked_until(entry.member, (entry.partition, entry.offset), at)
        if until is None or until - at < _IN_TIME * self._lock_s(at):
            return False
        return not (self._has_stalled(at, until) or _is_any(self._pauses, at, until))

    def _was_sent(self, member: str, place: Place, since: float, wanted: int) -> bool:
        """Before it was delivered again."""
        times = self._deliveries[place]
        again = [*times, inf][bisect_right(times, since)]
        return any(kind == wanted and since <= row.at < again for kind, row in self._sent[member, place])


def _is_any(times: Sequence[float], first: float, last: float) -> bool:
    """Whether any of these ascending times is in between."""
    return bisect_left(times, first) < bisect_right(times, last)
