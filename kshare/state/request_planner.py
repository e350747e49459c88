"""What a share session asks its broker next, or when to look again: made by `request_rules`, with numbers filled in.

    input                                  | output
    ---------------------------------------+--------------------------------------------------------------
    `next(demand, now)`                    | a request, or None: there is nothing to ask now
    `look_again(demand, now)`              | then: at which time, or with how few records undecided, there may be
    `settle(now)`, `end(now)`              | the last requests of a session: no more records
    `on_answer(sent, answer, now)`         | nothing: what a fetch brought tells how long the next may wait

Only while no request is under way (`ShareSession.under_way`). What goes into a request is under way from then on.

Decides what is asked, when, for how much, and how long the broker may wait with the answer. Never sends anything, never
looks at a clock, and knows nothing of who holds the records but what `Demand` says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, Protocol

from kshare.protocol.messages.share_fetch_request import ShareFetchRequest
from kshare.state.acks import PartitionAcks
from kshare.state.appetite import Appetite
from kshare.state.lease import Partition
from kshare.state.request_rules import RULES, Ask, Situation
from kshare.state.session import Acks, Answer, FetchLimits, Sent, ShareSession

AcquireMode = Literal["auto", "batches", "records"]

IDLE_WAIT_MS = 500
"""How long the broker may wait for records while no acknowledgement can be in need of leaving."""
BUSY_WAIT_MS = 25
"""As short as it gets while records are in the user's hands: their acknowledgements wait behind this fetch."""
BUSY_SHARE = 0.25
"""Of the time that the user spends on a record, or has let pass since anything was decided: an acknowledgement that
comes so much later makes no difference."""
LOCK_SHARE = 0.1
"""Of the lock: it is counted from when a fetch is sent, so what a fetch waits is taken off it."""
LINGER_S = 0.05
"""How long acknowledgements wait for others, or for a fetch to go along with, while there is more in hand."""
GRACE_S = 0.005
"""How long to wait for a user who has just been given all there was: most decide at once, and then a fetch may wait."""
STRICT_BELOW = 500
"""Fetches for fewer records ask for exactly so many: a whole batch would be more than is got through soon."""
PLENTY = 500
"""A fetch that brings as many, or half of what it asked for, has left more behind: the next won't wait."""
LONGEST_S = 60.0
"""To look again, whatever happens."""


class Demand(Protocol):
    """What whoever holds the records wants of this broker. Asked only for what matters; nothing changes meanwhile."""

    @property
    def wants_more(self) -> bool: ...
    @property
    def room(self) -> int:
        """For how many records more."""
        ...

    @property
    def room_in_bytes(self) -> int: ...
    @property
    def undecided(self) -> int:
        """Records that are held, of all brokers."""
        ...

    @property
    def few(self) -> int:
        """With no more undecided, it is worth a fetch."""
        ...

    @property
    def is_asked(self) -> bool:
        """The user waits for more: whatever is undecided is in its hands."""
        ...

    @property
    def is_confirming(self) -> bool:
        """Somebody waits for acknowledgements to be confirmed."""
        ...

    @property
    def has_committed(self) -> bool:
        """Somebody did, and may do so again any moment."""
        ...

    @property
    def rate(self) -> float:
        """Records a second of the user's time; 0 if nothing is known."""
        ...

    @property
    def handed_at(self) -> float:
        """When a batch reached the user last."""
        ...

    @property
    def leases_at(self) -> float:
        """When leases have to be looked after next."""
        ...


class Later(NamedTuple):
    """Nothing to ask before one of these, unless other partitions are wanted, or somebody begins to wait."""

    at: float
    undecided: int
    """When no more than so many records are."""


class RequestPlanner:
    """`books` has what the session holds, by partition, and is filled and emptied by others."""

    def __init__(
        self,
        session: ShareSession,
        books: Mapping[Partition, PartitionAcks],
        *,
        acquire: AcquireMode,
        max_response_bytes: int,
    ) -> None:
        self.broker_has_more = True
        self._session = session
        self._books = books
        self._acquire = acquire
        self._appetite = Appetite(max_response_bytes)
        self._lock_s = math.inf
        self._brought_at = 0.0
        self._moved_at = 0.0
        """When records of this broker came, or acknowledgements of them left, last."""
        self._decided_at: float | None = None
        """Since when acknowledgements wait."""

    # --- what is next

    def next(self, demand: Demand, now: float) -> Sent | None:
        session = self._session
        if session.under_way is not None:
            raise ValueError("a request of this session is under way: what comes next depends on its answer")
        decided = [acks for acks in self._books.values() if acks.has_decided] if session.is_open else []
        if not decided:
            self._decided_at = None
        elif self._decided_at is None:
            self._decided_at = now
        situation = self._situation(demand, decided, now)
        for rule in RULES:
            if rule.applies(situation):
                sent = self._ask(rule.ask, demand, decided, now)
                if sent is not None:
                    return sent
        return None

    def look_again(self, demand: Demand, now: float) -> Later:
        """After `next` had nothing to ask."""
        at = min(now + LONGEST_S, demand.leases_at)
        undecided = demand.few
        if self._decided_at is None:
            # With the first decision, acknowledgements begin to wait.
            undecided = max(undecided, demand.undecided - 1)
        else:
            at = min(at, self._decided_at + LINGER_S)
        if self._session.wanted and demand.wants_more:
            at = min(at, max(now, self._grace_until(demand)))
        return Later(at, undecided)

    def settle(self, now: float) -> Sent | None:
        """Whatever is decided, before the session ends. None: there is nothing more."""
        taken = self._take(self._books.values(), now)
        return self._session.acknowledge(taken) if taken else None

    def end(self, now: float) -> Sent:
        """The last request: what isn't acknowledged by now is released by the broker."""
        return self._session.close(self._take(self._books.values(), now))

    def on_answer(self, sent: Sent, answer: Answer, now: float) -> None:
        if answer.lock_ms > 0:
            self._lock_s = answer.lock_ms / 1000
        if not isinstance(sent.request, ShareFetchRequest):
            return
        sizes, brought = [], 0
        for _, data in answer.acquired:
            sizes.append(len(data.records or b""))
            for one in data.acquired_records:
                brought += one.last_offset - one.first_offset + 1
        self.broker_has_more = brought >= min(PLENTY, (sent.request.max_records + 1) // 2)
        self._brought_at = now
        if brought:
            self._moved_at = now
        self._appetite.on_answer(sizes)

    # --- how it is made

    def _situation(self, demand: Demand, decided: list[PartitionAcks], now: float) -> Situation:
        session = self._session
        wanted = session.wanted
        return Situation(  # in the order of its fields: for each exchange twice, and names take time
            bool(decided),
            bool(decided) and not self._books.keys() <= wanted,
            session.has_news,
            session.is_open and not wanted,
            bool(wanted) and demand.wants_more,
            demand.is_confirming,
            bool(decided) and any(acks.is_salvaging for acks in decided),
            self._decided_at is not None and now >= self._decided_at + LINGER_S,
            self.broker_has_more,
            demand.has_committed,
            not self.broker_has_more and now < self._grace_until(demand),
        )

    def _grace_until(self, demand: Demand) -> float:
        """Until when a fetch that may have to wait at the broker is put off."""
        if self.broker_has_more or not demand.undecided or demand.is_asked:
            return -math.inf
        return self._brought_at + GRACE_S

    def _ask(self, ask: Ask, demand: Demand, decided: list[PartitionAcks], now: float) -> Sent | None:
        """None: there is nothing to acknowledge so."""
        session, wanted = self._session, self._session.wanted
        if ask is Ask.RENEW:
            renewals = self._take(decided, now, renewals=True)
            return session.acknowledge(renewals, is_renewing=True) if renewals else None
        if ask is Ask.SETTLE_UNASSIGNED:
            taken = self._take([acks for acks in decided if acks.partition not in wanted], now)
            return session.acknowledge(taken) if taken else None
        taken = self._take([acks for acks in decided if acks.partition in wanted], now)
        if ask is Ask.FETCH:
            return session.fetch(self._limits(demand, now, is_acknowledging=bool(taken)), taken)
        return session.acknowledge(taken) if taken else None

    def _take(self, decided: Iterable[PartitionAcks], now: float, *, renewals: bool = False) -> Acks:
        taken = {}
        for acks in decided:
            ranges = acks.take(renewals=renewals)
            if ranges:
                taken[acks.partition] = ranges
        if taken and not renewals:
            # What is decided from now on waits anew.
            self._decided_at = None
            self._moved_at = now
        return taken

    def _limits(self, demand: Demand, now: float, *, is_acknowledging: bool) -> FetchLimits:
        room = demand.room
        return FetchLimits(
            max_records=room,
            batch_size=room,
            max_wait_ms=self._wait_ms(demand, now, is_acknowledging=is_acknowledging),
            max_bytes=min(demand.room_in_bytes, self._appetite.bytes_for(len(self._session.wanted))),
            is_strict=self._acquire == "records" or (self._acquire == "auto" and room < STRICT_BELOW),
        )

    def _wait_ms(self, demand: Demand, now: float, *, is_acknowledging: bool) -> int:
        """How long the broker may wait for records: the sooner decisions may come, the shorter."""
        longest = min(IDLE_WAIT_MS, max(BUSY_WAIT_MS, int(1000 * min(1.0, LOCK_SHARE * self._lock_s))))
        if not is_acknowledging and not any(acks.leases for acks in self._books.values()):
            return longest
        rate = demand.rate
        quiet_s = now - max(self._moved_at, demand.handed_at)
        wait_s = BUSY_SHARE * max(1 / rate if rate else 0.0, quiet_s)
        wait = max(BUSY_WAIT_MS, int(1000 * min(1.0, wait_s)))
        if self.broker_has_more and rate:
            # What the broker has may all be locked by what is in hand: then it is there when that has been decided.
            wait = min(wait, max(1, int(1000 * demand.undecided / rate)))
        return min(wait, longest)
