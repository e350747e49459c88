"""Judges a storm: compares what the programs wrote down with what the brokers did, as the proxies saw it.

Counts independently of kshare: it knows what was written, what each program was handed and has finished, every request
to acknowledge and its response, and the dead letters. `problems` says what contradicts the promises:

- wrong contents: a program got another value than was written at that offset
- accepted unseen: a member sent an accept for a record that its program hadn't got, or hadn't finished
- rejected unseen: the same with a reject that no program asked for
- lost: acknowledged as a gap; or the broker has finished it, without an accept, a reject or too many deliveries
- confirmed falsely: `on_settled` or `commit` said that a record was accepted, and no broker had confirmed that, or the
  response in which it did was lost
- delivered after accept: delivered again after a broker had confirmed that it was accepted
- archived unseen: archived at the limit of deliveries, though programs didn't get one of the last two, and no line of
  the log names it. A client can know of this, and has to say so. It can't where the response was lost, or its process
  was killed. Earlier deliveries that no program got are counted only: programs got later ones, and failed.
- hot loop: a member gets the same damaged record twice more at once, though each delivery brings it nearer to the limit
- left: the broker hasn't finished it at the end
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from tests.integration.consumer_storm.diary import Entry, Event
from tests.integration.consumer_storm.fault_book import UNKNOWABLE, Acknowledged, Acquired

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
Place = tuple[int, int]
"""Partition and offset."""
SAFE_LEFT = 2
"""With fewer deliveries left, a client has to name the records that it gives back unseen."""
ACCEPTED_LATE = "confirmed accepts of records that the broker had archived"
AT_ONCE_S = 0.3
"""kshare waits for half a second, and then longer."""
_FINISHED = (Event.ENDED, Event.ACCEPTS)
_NAMED = re.compile(r"of \S+?\[(\d+)\] \(offsets? (\d+)(?: to (\d+))?\)")


class Delivered(NamedTuple):
    """One record of an acquired range."""

    at: float
    member: str
    delivery: int
    fault: str | None


class Witness(NamedTuple):
    """What is left of one process."""

    entries: Sequence[Entry]
    log: str
    was_killed: bool


@dataclass
class Judgement:
    written: Mapping[Place, str]
    """The values."""
    witnesses: Sequence[Witness]
    acquired: Sequence[Acquired]
    acknowledged: Sequence[Acknowledged]
    limit: int = 5
    gone: Callable[[Place], float] = lambda place: inf
    """From when on a record may be missing: brokers have deleted or lost it, or the group goes on after it."""
    is_undone: Callable[[Place, float, float], bool] = lambda place, confirmed, again: False
    """Whether brokers, in between, lost what was confirmed at the first of these times."""
    problems: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._by_member: dict[tuple[str, Place], list[Entry]] = defaultdict(list)
        self._got: dict[Place, list[Entry]] = defaultdict(list)
        self._commits: dict[str, list[Entry]] = defaultdict(list)
        self._killed: set[str] = set()
        self._named: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._deliveries: dict[Place, list[Delivered]] = defaultdict(list)
        self._confirmed: dict[tuple[str, Place], list[float]] = defaultdict(list)
        """When brokers have confirmed accepts."""
        self._heard: dict[tuple[str, Place], list[float]] = defaultdict(list)
        """The same, without responses that didn't reach the client."""
        self._accepted: set[Place] = set()
        self._rejected: set[Place] = set()
        self._read_diaries()
        self._read_traffic()
        self._judge_contents()
        self._judge_acknowledgements()
        self._judge_confirmations()
        self._judge_commits()
        self._judge_redeliveries()
        self._judge_repetition()

    def _problem(self, kind: str, text: str) -> None:
        self.problems[kind].append(text)

    # --- reading

    def _read_diaries(self) -> None:
        for witness in self.witnesses:
            for entry in witness.entries:
                if entry.event in (Event.COMMITS, Event.COMMITTED):
                    self._commits[entry.member].append(entry)
                elif entry.event in (Event.DID, Event.NOTICED):
                    self.counts[f"{entry.event} {entry.text}"] += 1
                else:
                    self._by_member[entry.member, (entry.partition, entry.offset)].append(entry)
                    if entry.event in (Event.HANDED, Event.UNREADABLE):
                        self._got[entry.partition, entry.offset].append(entry)
                if witness.was_killed:
                    self._killed.add(entry.member)
            for partition, first, last in _NAMED.findall(witness.log):
                self._named[int(partition)].append((int(first), int(last or first)))
        for entries in self._got.values():
            entries.sort()

    def _read_traffic(self) -> None:
        for span in self.acquired:
            for offset in range(span.first, span.last + 1):
                self._deliveries[span.partition, offset].append(
                    Delivered(span.at, span.member, span.delivery, span.fault)
                )
        for row in self.acknowledged:
            for offset in range(row.first, row.last + 1):
                place, kind = (row.partition, offset), row.kind_of(offset)
                if kind == ACCEPT and row.error in (0, None):
                    self._accepted.add(place)
                if kind == ACCEPT and row.error == 0:
                    self._confirmed[row.member, place].append(row.responded_at)
                    if not row.is_lost:
                        self._heard[row.member, place].append(row.responded_at)
                if kind == REJECT and row.error in (0, None):
                    self._rejected.add(place)
        for deliveries in self._deliveries.values():
            deliveries.sort(key=lambda delivery: delivery.at)

    # --- judging

    def _judge_contents(self) -> None:
        for place, entries in self._got.items():
            for entry in entries:
                if entry.event is Event.HANDED and entry.text != self.written.get(place):
                    self._problem(
                        "wrong contents", f"{place}: {entry.text!r}, not {self.written.get(place)!r}"
                    )

    def _judge_acknowledgements(self) -> None:
        for row in self.acknowledged:
            for offset in range(row.first, row.last + 1):
                place, kind = (row.partition, offset), row.kind_of(offset)
                if kind == GAP and place in self.written and row.at < self.gone(place):
                    self._problem("lost", f"{place}: acknowledged as a gap by {row.member}")
                elif kind == ACCEPT:
                    reason = self._why_not_finished(row, place)
                    if reason:
                        self._problem("accepted unseen", f"{place}: {reason}, by {row.member}")
                elif kind == REJECT and not any(
                    entry.event is Event.REJECTS and entry.at <= row.at
                    for entry in self._by_member[row.member, place]
                ):
                    self._problem("rejected unseen", f"{place}: rejected by {row.member}")

    def _why_not_finished(self, row: Acknowledged, place: Place) -> str | None:
        """None if the member's program had finished it before this accept was sent."""
        before = [entry for entry in self._by_member[row.member, place] if entry.at <= row.at]
        if not any(entry.event in (Event.HANDED, Event.UNREADABLE) for entry in before):
            return "never handed out"
        mine = [
            delivery
            for delivery in self._deliveries[place]
            if delivery.at <= row.at and delivery.member == row.member
        ]
        latest = mine[-1].delivery if mine else 0
        now = [entry for entry in before if entry.delivery == latest]
        if not now:
            # Delivered again, and not handed out again: an earlier accept that nobody had confirmed still counts.
            now = before
        decided = [
            entry
            for entry in now
            if entry.event in (*_FINISHED, Event.HANDED, Event.UNREADABLE, Event.RELEASED, Event.REJECTS)
        ]
        last = decided[-1].event if decided else None
        return None if last in _FINISHED else f"handed out, not finished ({last})"

    def _judge_confirmations(self) -> None:
        for (member, place), entries in self._by_member.items():
            for entry in entries:
                if entry.event is not Event.CONFIRMED:
                    continue
                for offset in range(place[1], int(entry.text) + 1):
                    self._must_be_confirmed(member, (place[0], offset), entry.at, "on_settled")

    def _judge_commits(self) -> None:
        finished: dict[str, list[Entry]] = defaultdict(list)
        for (member, _), entries in self._by_member.items():
            finished[member] += self._finished_for_good(entries)
        for member, entries in self._commits.items():
            mine = sorted(finished[member])
            times = [entry.at for entry in mine]
            done, asked = 0, 0.0
            for entry in sorted(entries):
                if entry.event is Event.COMMITS:
                    asked = entry.at
                    continue
                failed = {int(text) for text in entry.text.split(",") if text}
                until = bisect_right(times, asked)
                for accepted in mine[done:until]:
                    if accepted.partition not in failed:
                        self._must_be_confirmed(
                            member, (accepted.partition, accepted.offset), entry.at, "commit"
                        )
                done = max(done, until)

    def _judge_redeliveries(self) -> None:
        for (member, place), times in self._confirmed.items():
            again = [
                delivery
                for delivery in self._deliveries[place]
                if self._is_confirmed(place, times, delivery.at)
            ]
            if again:
                who = f"accepted by {member}, confirmed, then delivered to {again[0].member}"
                self._problem("delivered after accept", f"{place}: {who}")

    def _is_confirmed(self, place: Place, times: Sequence[float], now: float) -> bool:
        """Whether an accept was confirmed at one of these times, and brokers haven't lost that since."""
        latest = max((at for at in times if at < now), default=None)
        return latest is not None and not self.is_undone(place, latest, now)

    def _judge_repetition(self) -> None:
        for place, deliveries in self._deliveries.items():
            damaged = [delivery for delivery in deliveries if delivery.fault == "corrupt batch"]
            # Once, a session that is lost in between may be the cause.
            for first, second, third in zip(damaged, damaged[1:], damaged[2:], strict=False):
                times = second.at - first.at, third.at - second.at
                if first.member == second.member == third.member and max(times) < AT_ONCE_S:
                    took = f"{times[0]:.3f} and {times[1]:.3f} s after delivery {first.delivery}"
                    self._problem("hot loop", f"{place}: twice, {took}, to {first.member}")

    def _finished_for_good(self, entries: Sequence[Entry]) -> list[Entry]:
        """Where the program has finished a record, wasn't told that it was too late, and hasn't rejected it since."""
        found: list[Entry] = []
        is_rejected = False
        for entry in sorted(entries):
            if (
                entry.event in _FINISHED and not is_rejected
            ):  # then it has finished an older copy, after its lock
                found.append(entry)
            elif entry.event in (Event.TOO_LATE, Event.REJECTS) and found:
                found.pop()
            if entry.event in (Event.REJECTS, Event.HANDED, Event.UNREADABLE):
                is_rejected = entry.event is Event.REJECTS
        return found

    def _must_be_confirmed(self, member: str, place: Place, by: float, who: str) -> None:
        self.counts[f"confirmed by {who}"] += 1
        if any(at <= by for at in self._heard.get((member, place), ())):
            return
        is_lost = any(at <= by for at in self._confirmed.get((member, place), ()))
        missing = "the response that confirms it was lost" if is_lost else "no broker has confirmed an accept"
        self._problem("confirmed falsely", f"{place}: {who} of {member}, and {missing}")

    def judge_ends(self, left: set[Place], dead: Mapping[Place, str] | None) -> None:
        """Called at the end. `left`: records that the broker hasn't finished.

        `dead`: dead letters by origin, and why they were written. None if this broker writes none.
        """
        for place in sorted(left):
            self._problem("left", f"{place}: not finished at the end")
        archived = {place for place in set(self.written) - self._accepted - left if self.gone(place) == inf}
        if dead is not None:
            for place in sorted(archived - set(dead)):
                self._problem("lost", f"{place}: accounts differ: no dead letter, and no accept")
            # Brokers confirm acknowledgements of what they have archived before, once their start offset is behind it.
            self.counts[ACCEPTED_LATE] = len(set(dead) & self._surely_accepted)
        for place in sorted(archived):
            self._judge_archived(place)
        self.counts["archived"] = len(archived)
        self.counts["written"] = len(self.written)
        self.counts["handed out"] = len(self._got)
        self.counts["deliveries"] = sum(map(len, self._deliveries.values()))
        self.counts["deliveries that programs got"] = sum(map(len, self._got.values()))
        self.counts["accepted"] = len(self._accepted)

    @property
    def _surely_accepted(self) -> set[Place]:
        return {place for _, place in self._confirmed}

    def _judge_archived(self, place: Place) -> None:
        deliveries = self._deliveries[place]
        if place in self._rejected:
            self.counts["archived: rejected"] += 1
            return
        seen = self._seen(place)
        pairs = [*zip(deliveries, seen, strict=True)]
        # Brokers count a delivery to a process that was killed while it waited, and nobody has seen its response.
        count = max([len(deliveries), *(delivery.delivery for delivery in deliveries)])
        if count < self.limit:
            self._problem("lost", f"{place}: archived after {count} deliveries")
        elif sum(seen) >= self.limit:
            self.counts["archived: handed out as often as the limit"] += 1
        elif any(first <= place[1] <= last for first, last in self._named[place[0]]):
            self.counts["archived unseen, named in the log"] += 1
        elif all(is_seen or self._is_unknowable(delivery) for delivery, is_seen in pairs[-SAFE_LEFT:]):
            if all(is_seen for _, is_seen in pairs[-SAFE_LEFT:]):
                self.counts["archived: handed out in the last deliveries, and not in all earlier ones"] += 1
            else:
                self.counts["archived unseen: a response lost, or a process killed"] += 1
        else:
            what = ", ".join(
                f"{delivery.delivery}: {'seen' if is_seen else delivery.fault or 'unseen'}"
                for delivery, is_seen in pairs
            )
            self._problem("archived unseen", f"{place}: {what}")

    def _is_unknowable(self, delivery: Delivered) -> bool:
        return delivery.fault in UNKNOWABLE or delivery.member in self._killed

    def _seen(self, place: Place) -> list[bool]:
        """For each delivery, whether a program got it."""
        deliveries = self._deliveries[place]
        times = [delivery.at for delivery in deliveries]
        seen = [False] * len(deliveries)
        for entry in self._got[place]:
            for index in range(bisect_right(times, entry.at) - 1, -1, -1):
                if deliveries[index].member == entry.member:
                    seen[index] = True
                    break
        return seen
