"""The next request of a share session, or when to check again: `request_rules`, with the numbers filled in.

    input                                  | output
    ---------------------------------------+--------------------------------------------------------------
    `next(demand, now)`                    | a request, or None: there is nothing to send now
    `next_check(demand, now)`              | after None: the time, or the number of undecided records, to retry at
    `settle(now)`, `end(now)`              | the last requests of a session: no more records
    `on_response(sent, response, now)`         | nothing: a fetch's result tells how long the next one may wait

May be called only while no request is under way (`ShareSession.under_way`); what goes into a request is under way then.

Decides what to request, when, how much, and how long the broker may wait with its response. Never sends anything, never
reads a clock, and sees the holder of the records only through `Demand`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, Protocol

from kshare.protocol.messages.share_fetch_request import ShareFetchRequest
from kshare.state.acks import PartitionAcks
from kshare.state.empty_responses import EmptyResponses
from kshare.state.fetch_size import FetchSize
from kshare.state.lease import TopicIdPartition
from kshare.state.request_rules import REQUEST_RULES, Action, Situation
from kshare.state.session import Acks, FetchLimits, SentRequest, SessionResponse, ShareSession

AcquireMode = Literal["auto", "batches", "records"]

IDLE_WAIT_MS = 500
"""How long the broker may wait for records while there can't be anything to acknowledge."""
BUSY_WAIT_MS = 25
"""The shortest wait while the user has records: their acknowledgements queue behind this fetch."""
READY_WAIT_MS = 1
"""The wait for records that the broker has at once."""
BUSY_SHARE = 0.25
"""Fraction of the user's time per record, or of the time since the last activity: such a short delay of an
acknowledgement makes no difference."""
LOCK_SHARE = 0.1
"""Fraction of the lock: it is counted from the sending of a fetch, so a fetch that waits shortens it."""
WAIT_SHARE = 0.5
"""Fraction of the request timeout that a fetch may wait at the broker."""
LINGER_S = 0.05
"""How long acknowledgements wait for others, or for a fetch that can carry them, while the user has more records."""
GRACE_S = 0.005
"""How long to put off a fetch after the user has got all records: most users decide at once, and after that the fetch
may wait at the broker without delaying acknowledgements."""
STRICT_BELOW = 500
"""Below this many records a fetch uses record-limit mode: a whole batch would be more than can be processed soon."""
PLENTY = 500
"""After a fetch that returns this many records, or half of what it asked for, the broker is assumed to have more:
the next fetch won't wait."""
MAX_IDLE_S = 60.0
"""The longest time until the next check."""


class HolderDemand(Protocol):
    """What the holder of the records wants from all brokers."""

    @property
    def wants_more(self) -> bool: ...
    def capacity(self, brokers: int) -> int:
        """How many more records to request from one broker, if there are this many brokers."""
        ...

    def capacity_in_bytes(self, brokers: int) -> int:
        """How many more bytes of records to request from one broker."""
        ...

    @property
    def refill_at(self) -> int:
        """With this many undecided or fewer, a fetch is worthwhile."""
        ...

    @property
    def is_user_waiting(self) -> bool:
        """The user is waiting for records, and so has all that are undecided."""
        ...

    @property
    def wants_only_ready(self) -> bool:
        """Has enough to go on with, and only waits for what brokers can send at once."""
        ...

    @property
    def rate(self) -> float:
        """Records per second of the user's processing time; 0 if unknown."""
        ...

    @property
    def handed_out_at(self) -> float:
        """When the user last got a batch."""
        ...


class Demand(NamedTuple):
    """What requests depend on besides their session."""

    holder: HolderDemand
    brokers: int
    """How many brokers share the holder's capacity: at least 1."""
    undecided: int
    """How many records are held, from all brokers."""
    is_confirming: bool
    """A task is waiting for acknowledgements to be confirmed."""
    has_committed: bool
    """A task did so before, and may again at any moment."""


class NextCheck(NamedTuple):
    """There is nothing to send until then, unless the assignment changes, a lease is due, or a task starts to wait."""

    at: float
    undecided: int
    """Or until at most this many records are undecided."""


class RequestPlanner:
    """`partition_acks` holds the session's leases by partition; the caller adds and removes them."""

    def __init__(
        self,
        session: ShareSession,
        partition_acks: Mapping[TopicIdPartition, PartitionAcks],
        *,
        acquire: AcquireMode,
        max_response_bytes: int,
        request_timeout: float = math.inf,
    ) -> None:
        """`request_timeout`: how many seconds a response may take. No fetch may wait at the broker for that long."""
        self.broker_has_more = True
        self._session = session
        self._partition_acks = partition_acks
        self._acquire = acquire
        self._fetch_size = FetchSize(max_response_bytes)
        self._longest_wait_ms = max(1, int(min(IDLE_WAIT_MS, 1000 * WAIT_SHARE * request_timeout)))
        self.empty_responses = EmptyResponses()
        self._asked_at = 0.0
        """When the last fetch was made."""
        self._lock_s = math.inf
        self._fetched_at = 0.0
        self._active_at = 0.0
        """When this broker last sent records, or was last sent acknowledgements."""
        self._decided_at: float | None = None
        """When the oldest waiting acknowledgement was decided."""

    # --- what is next

    def next(self, demand: Demand, now: float) -> SentRequest | None:
        session = self._session
        if session.under_way is not None:
            raise ValueError(
                "a request of this session is under way: what comes next depends on its response"
            )
        decided = (
            [acks for acks in self._partition_acks.values() if acks.has_decided] if session.is_open else []
        )
        if not decided:
            self._decided_at = None
        elif self._decided_at is None:
            self._decided_at = now
        situation = self._situation(demand, decided, now)
        for rule in REQUEST_RULES:
            if rule.applies(situation):
                sent = self._request_for(rule.action, demand, decided, now)
                if sent is not None:
                    return sent
        return None

    def next_check(self, demand: Demand, now: float) -> NextCheck:
        """After `next` returned None."""
        at = now + MAX_IDLE_S
        undecided = demand.holder.refill_at
        if self._decided_at is None:
            # With the first decision, there is an acknowledgement to linger for.
            undecided = max(undecided, demand.undecided - 1)
        else:
            at = min(at, self._decided_at + LINGER_S)
        if self._session.wanted and demand.holder.wants_more:
            at = min(at, max(now, self._grace_until(demand), self.empty_responses.until))
        return NextCheck(at, undecided)

    def settle(self, now: float) -> SentRequest | None:
        """Acknowledges what is decided, before the session ends. None if there is nothing."""
        acknowledgements = self._take(self._partition_acks.values(), now)
        return self._session.acknowledge(acknowledgements) if acknowledgements else None

    def end(self, now: float) -> SentRequest:
        """The last request: the broker releases what isn't acknowledged by now."""
        return self._session.close(self._take(self._partition_acks.values(), now))

    def on_response(self, sent: SentRequest, response: SessionResponse, now: float) -> None:
        if response.lock_ms > 0:
            self._lock_s = response.lock_ms / 1000
        if not isinstance(sent.request, ShareFetchRequest):
            return
        sizes, acquired = [], 0
        for _, data in response.acquired:
            sizes.append(len(data.records or b""))
            for record in data.acquired_records:
                acquired += record.last_offset - record.first_offset + 1
        self.broker_has_more = acquired >= min(PLENTY, (sent.request.max_records + 1) // 2)
        self._fetched_at = now
        if acquired:
            self._active_at = now
            self.empty_responses.on_records()
        elif not sent.acks and sent.partitions:
            self.empty_responses.on_empty(now - self._asked_at, sent.request.max_wait_ms / 1000, now)
        self._fetch_size.on_response(sizes)

    # --- how it is made

    def _situation(self, demand: Demand, decided: list[PartitionAcks], now: float) -> Situation:
        session = self._session
        wanted = session.wanted
        return Situation(  # by position: this runs twice per exchange, and keywords take time
            bool(decided),
            bool(decided) and not self._partition_acks.keys() <= wanted,
            session.has_partition_changes,
            session.is_open and not wanted,
            bool(wanted) and now >= self.empty_responses.until and demand.holder.wants_more,
            demand.is_confirming,
            bool(decided) and any(acks.has_retries for acks in decided),
            self._decided_at is not None and now >= self._decided_at + LINGER_S,
            self.broker_has_more,
            demand.has_committed,
            not self.broker_has_more and now < self._grace_until(demand),
        )

    def _grace_until(self, demand: Demand) -> float:
        """Until when to put off a fetch that might have to wait at the broker."""
        if self.broker_has_more or not demand.undecided or demand.holder.is_user_waiting:
            return -math.inf
        return self._fetched_at + GRACE_S

    def _request_for(
        self, action: Action, demand: Demand, decided: list[PartitionAcks], now: float
    ) -> SentRequest | None:
        """None if there is nothing of this kind to acknowledge."""
        session, wanted = self._session, self._session.wanted
        if action is Action.RENEW:
            renewals = self._take(decided, now, renewals=True)
            return session.acknowledge(renewals, is_renewing=True) if renewals else None
        if action is Action.SETTLE_UNASSIGNED:
            acknowledgements = self._take([acks for acks in decided if acks.partition not in wanted], now)
            return session.acknowledge(acknowledgements) if acknowledgements else None
        acknowledgements = self._take([acks for acks in decided if acks.partition in wanted], now)
        if action is Action.FETCH:
            self._asked_at = now
            return session.fetch(
                self._limits(demand, now, is_acknowledging=bool(acknowledgements)), acknowledgements
            )
        return session.acknowledge(acknowledgements) if acknowledgements else None

    def _take(self, decided: Iterable[PartitionAcks], now: float, *, renewals: bool = False) -> Acks:
        acknowledgements = {}
        for acks in decided:
            ranges = acks.take(renewals=renewals)
            if ranges:
                acknowledgements[acks.partition] = ranges
        if acknowledgements and not renewals:
            # The next decision starts a new linger time.
            self._decided_at = None
            self._active_at = now
        return acknowledgements

    def _limits(self, demand: Demand, now: float, *, is_acknowledging: bool) -> FetchLimits:
        capacity = demand.holder.capacity(demand.brokers)
        room = demand.holder.capacity_in_bytes(demand.brokers)
        return FetchLimits(
            max_records=capacity,
            max_wait_ms=self._wait_ms(demand, now, is_acknowledging=is_acknowledging),
            max_bytes=min(room, self._fetch_size.bytes_for(len(self._session.wanted))),
            is_strict=self._acquire == "records" or (self._acquire == "auto" and capacity < STRICT_BELOW),
        )

    def _wait_ms(self, demand: Demand, now: float, *, is_acknowledging: bool) -> int:
        """How long the broker may wait for records: shorter if decisions are expected soon."""
        if self.broker_has_more and demand.holder.wants_only_ready:
            return READY_WAIT_MS
        share_of_lock = max(BUSY_WAIT_MS, int(1000 * min(1.0, LOCK_SHARE * self._lock_s)))
        longest = min(self._longest_wait_ms, share_of_lock)
        if not is_acknowledging and not any(acks.leases for acks in self._partition_acks.values()):
            return longest
        rate = demand.holder.rate
        quiet_s = now - max(self._active_at, demand.holder.handed_out_at)
        wait_s = BUSY_SHARE * max(1 / rate if rate else 0.0, quiet_s)
        wait = max(BUSY_WAIT_MS, int(1000 * min(1.0, wait_s)))
        if self.broker_has_more and rate:
            # The in-flight window may be full of our own records: then the broker has more once these are decided.
            wait = min(wait, max(1, int(1000 * demand.undecided / rate)))
        return min(wait, longest)
