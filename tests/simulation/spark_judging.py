"""Judges a simulated query: compares Spark's logs and the sink with what passed over connections.

Knows Spark's contract and the promises of docs/spark.md, and nothing of kshare's code. `problems` says what contradicts
them:

- wrong contents: a task read another value than was written at that offset
- emitted twice: a row is in two micro-batches of the sink, though the user hasn't released it. (A rejected
  row may be there again as well, if its rejection wasn't confirmed.)
- another replay: a micro-batch that was run again had other rows, or not those that its token names
- accepted early: an accept was sent before the micro-batch was complete (settle=sink), was logged (checkpoint), or
  before the record was in the journal (journal)
- accepted against the user: the user had rejected or released that row
- rejected unseen: a reject that the user didn't ask for
- forgotten: the user has rejected a row, and the query has gone on without saying so, and released it
- lost: the group has finished a record, and it is in no micro-batch, nobody else had it, and it is no dead letter; or
  it was acknowledged as a gap
- delivered after accept: delivered again after a broker had confirmed that it was accepted
- left: not finished at the end
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Any

from tests.integration.consumer_storm.fault_book import Acknowledged, Acquired
from tests.simulation.spark_history import Batch, History, Place

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


@dataclass
class Judgement:
    settle: str
    written: Mapping[Place, bytes]
    """The values."""
    history: History
    acquired: Sequence[Acquired]
    acknowledged: Sequence[Acknowledged]
    limit: int
    problems: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for kind, texts in self.history.broken.items():
            self.problems[kind] += texts
        self._emitted: dict[Place, list[tuple[int, Batch]]] = defaultdict(list)
        """The micro-batches of each row, in order."""
        self._named = [_named(batch.token) for batch in self.history.batches]
        """What Spark's offset log says is in each micro-batch."""
        self._logged_at: dict[Place, float] = {}
        for batch, named in zip(self.history.batches, self._named, strict=True):
            for place in named:
                self._logged_at.setdefault(place, batch.logged_at)
        for number, batch in enumerate(self.history.batches):
            for place in batch.rows or ():
                self._emitted[place].append((number, batch))
        self._deliveries: dict[Place, list[Acquired]] = defaultdict(list)
        for span in self.acquired:
            for offset in range(span.first, span.last + 1):
                self._deliveries[span.partition, offset].append(span)
        self._accepted: dict[Place, float] = {}
        """When a broker has confirmed it first."""
        self._rejects: set[tuple[str, Place]] = set()
        """What each member has asked brokers to reject."""
        self._judge_contents()
        self._judge_emissions()
        self._judge_replays()
        self._judge_acknowledgements()
        self._judge_redeliveries()

    def _problem(self, kind: str, text: str) -> None:
        self.problems[kind].append(text)

    def _judge_contents(self) -> None:
        for place, values in self.history.values.items():
            if values != {self.written.get(place)}:
                self._problem("wrong contents", f"{place}: {values}, not {self.written.get(place)!r}")

    def _judge_emissions(self) -> None:
        for place, found in self._emitted.items():
            for (number, batch), (later, _) in pairwise(found):
                may_be_again = batch.is_redelivered or (
                    batch.committed is not None and place in batch.committed.verdicts
                )
                if not may_be_again:
                    self._problem("emitted twice", f"{place}: in micro-batches {number} and {later}")

    def _judge_replays(self) -> None:
        for number, batch in enumerate(self.history.batches):
            named = self._named[number] & self.written.keys()
            for attempt in batch.attempts:
                self.counts["runs of micro-batches"] += 1
                if attempt.rows != batch.attempts[0].rows:
                    self._problem("another replay", f"micro-batch {number}, by {attempt.by}")
                if len(attempt.rows) != len(set(attempt.rows)) or not named.issuperset(attempt.rows):
                    self._problem("another replay", f"micro-batch {number} isn't what its token names")
            unread = named.difference(batch.attempts[0].rows) if batch.attempts else ()
            # A version of Spark that doesn't pass its position may plan again what was emitted, and leaves it out then.
            for place in unread:
                if not any(earlier < number for earlier, _ in self._emitted[place]):
                    self._problem(
                        "another replay", f"{place} isn't in micro-batch {number}, whose token names it"
                    )

    def _judge_acknowledgements(self) -> None:
        for row in self.acknowledged:
            is_other = row.member in self.history.other_members
            for offset in range(row.first, row.last + 1):
                place, kind = (row.partition, offset), row.kind_of(offset)
                if kind == GAP and place in self.written:
                    self._problem("lost", f"{place}: acknowledged as a gap by {row.member}")
                elif kind == ACCEPT:
                    if row.error == 0:
                        self._accepted[place] = min(self._accepted.get(place, inf), row.responded_at)
                    if not is_other:
                        self._judge_accept(place, row)
                elif kind == RELEASE and not is_other:
                    self._judge_release(place, row)
                elif kind == REJECT:
                    self._rejects.add((row.member, place))
                    self._judge_reject(place, row)

    def _judge_reject(self, place: Place, row: Acknowledged) -> None:
        attempts = (attempt for _, batch in self._emitted[place] for attempt in batch.attempts)
        if not any(attempt.verdicts.get(place) == "reject" for attempt in attempts):
            self._problem("rejected unseen", f"{place}: by {row.member} at {row.at:.3f}")

    def _judge_release(self, place: Place, row: Acknowledged) -> None:
        """Who has planned the next micro-batch knows that this one is complete, and what its user has decided."""
        emitted = [(number, batch) for number, batch in self._emitted[place] if batch.committed_at <= row.at]
        number, batch = emitted[-1] if emitted else (-1, None)
        if batch is None or batch.committed is None or batch.committed.verdicts.get(place) != "reject":
            return
        latest = max(
            (delivery.at for delivery in self._deliveries[place] if delivery.at <= row.at), default=inf
        )
        if latest > batch.committed_at or (row.member, place) in self._rejects:
            return  # it was delivered again, or the response of the broker was lost
        if row.member in self._planners(number + 1, row.at):
            self._problem("forgotten", f"{place}: rejected, and released at {row.at:.3f} by {row.member}")

    def _planners(self, number: int, at: float) -> set[str]:
        """The members that had the records of this micro-batch when it was planned. None if that was later."""
        if number >= len(self.history.batches) or self.history.batches[number].planned_at > at:
            return set()
        logged_at, found = self.history.batches[number].logged_at, set()
        for place in self._named[number]:
            before = [delivery for delivery in self._deliveries[place] if delivery.at <= logged_at]
            found |= {delivery.member for delivery in before[-1:]}
        return found

    def _judge_accept(self, place: Place, row: Acknowledged) -> None:
        self.counts["accepts"] += 1
        complete = [batch for _, batch in self._emitted[place] if batch.committed_at <= row.at]
        if complete:
            verdict = complete[-1].committed.verdicts.get(place) if complete[-1].committed else None
            if verdict is not None:
                self._problem("accepted against the user", f"{place}: at {row.at:.3f}, after {verdict}")
            return
        if self.settle == "checkpoint":
            since = self._logged_at.get(place, inf)
        elif self.settle == "journal":
            since = self.history.durable_at.get(place, inf)
        else:
            since = inf
        if row.at < since:
            self._problem("accepted early", f"{place}: at {row.at:.3f} by {row.member}")

    def _judge_redeliveries(self) -> None:
        for place, at in self._accepted.items():
            again = [delivery for delivery in self._deliveries[place] if delivery.at > at]
            if again:
                self._problem("delivered after accept", f"{place}: to {again[0].member} at {again[0].at:.3f}")

    def judge_ends(self, left: set[Place], dead: Iterable[Place]) -> None:
        """Called at the end. `left`: what the group hasn't finished. `dead`: the dead letters."""
        letters = set(dead)
        committed = self.history.committed
        for place in sorted(self.written):
            if place in committed or place in self.history.others:
                if place in left:
                    self._problem("left", f"{place}: processed, and the group delivers it again")
            elif place in left:
                self._problem("left", f"{place}: not processed")
            elif place not in letters:
                self._problem("lost", f"{place}: in no micro-batch, and finished")
            elif len(self._deliveries[place]) < self.limit:
                self._problem("lost", f"{place}: archived after {len(self._deliveries[place])} deliveries")
            else:
                self.counts["archived"] += 1
        self.counts["written"] = len(self.written)
        self.counts["emitted"] = len(self._emitted)
        self.counts["by others"] = len(self.history.others)
        self.counts["micro-batches"] = len(self.history.batches)


def _named(token: str) -> set[Place]:
    """The records that a token says are in its micro-batch."""
    value: dict[str, Any] = json.loads(token)
    return {
        (int(partition), offset)
        for partitions in value["acquired"].values()
        for partition, numbers in partitions.items()
        for first, count in zip(numbers[::3], numbers[1::3], strict=True)
        for offset in range(first, first + count)
    }
