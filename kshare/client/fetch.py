"""The one task that speaks with one broker for a consumer: fetches, acknowledges, renews, opens the session anew.

Moves values between `net`, `state` and the consumer's holdings. All it decides is what the next request is for:

    renewals due                                → acknowledge them (a request of their own)
    acknowledgements of partitions not wanted   → acknowledge them: along with a fetch they would be acquired anew
    partitions to add or forget                 → fetch, acknowledgements go along
    room, and the broker has more, or nobody    → fetch, acknowledgements go along
    waits for their confirmation
    room, the broker must wait for more, and    → acknowledge first, then fetch: confirmed at once
    the user is one who commits
    no room, and acknowledgements that have     → acknowledge
    waited, are the last or are waited for
    nothing                                     → wait for a decision, or for a lease to be looked after
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import anyio
from anyio.lowlevel import checkpoint

from kshare.client.config import ConsumerConfig
from kshare.client.holdings import Holdings
from kshare.client.observer import SessionEnded
from kshare.errors import ConnectionLost, DecodeError, KshareError, NotAuthorized, RequestTimedOut
from kshare.net.permissions import Right, refusal
from kshare.net.waiting import GoOn
from kshare.protocol.error_codes import ErrorCode, error_name
from kshare.protocol.message import Request
from kshare.protocol.messages.share_fetch_request import ShareFetchRequest
from kshare.state.acks import PartitionAcks
from kshare.state.appetite import Appetite
from kshare.state.cluster import Endpoint
from kshare.state.lease import GAP, REJECT, Partition
from kshare.state.session import MOVED, Acks, Answer, FetchLimits, Leader, Sent, ShareSession

log = logging.getLogger("kshare.client")


class Line(Protocol):
    """The way to one broker, as `line.FetchLine` is."""

    @property
    def is_free(self) -> bool:
        """It is open, and what is begun now leaves at once."""
        ...

    async def open(self, on_closed: Callable[[str], None], timeout: float) -> None:
        """Unless it is; `on_closed` is told why it ended."""
        ...

    def begin(self, request: Request[Any], go_on: GoOn) -> None:
        """Asks this, and then what is made of each answer, until that is nothing."""
        ...

    async def hear_out(self, timeout: float) -> None:
        """What was begun, to its end; so many seconds for each answer."""
        ...


IDLE_WAIT_MS = 500
"""How long the broker may wait for records while no acknowledgement can be in need of leaving."""
BUSY_WAIT_MS = 25
"""As short as it gets while records are in the user's hands: their acknowledgements wait behind this fetch."""
_BUSY_SHARE = 0.25
"""Of the time that the user spends on a record: an acknowledgement that comes so much later makes no difference."""
LINGER_S = 0.05
"""How long acknowledgements wait for others, or for a fetch to go along with, while there is more in hand."""
GRACE_S = 0.005
"""How long to wait for a user who has just been given all there was: most decide at once, and then a fetch may wait."""
STRICT_BELOW = 500
"""Fetches for fewer records ask for exactly so many: a whole batch would be more than is got through soon."""
PLENTY = 500
"""A fetch that brings as many, or half of what it asked for, has left more behind: the next won't wait."""
_PAUSE_AFTER_ERROR_S = 0.1
_PAUSE_AT_THE_END_S = 0.005
_LONGEST_WAIT_S = 60.0


class NodeSession:
    """`on_moved` is told of partitions that are no longer led by this broker, and where they are if it says so."""

    def __init__(
        self,
        node: int,
        session: ShareSession,
        line: Line,
        config: ConsumerConfig,
        holdings: Holdings,
        name_of: Callable[[bytes], str | None],
        on_moved: Callable[[Sequence[Partition], Sequence[Leader], Sequence[Endpoint]], None],
    ) -> None:
        self.node = node
        self.session = session
        self.books: dict[Partition, PartitionAcks] = {}
        self._line = line
        self._config = config
        self._holdings = holdings
        self._name_of = name_of
        self._on_moved = on_moved
        self._appetite = Appetite()
        self._closing = False
        self._has_plenty = True
        self._brought_at = 0.0
        self._decided_at: float | None = None
        self._asked: Sent | None = None
        """What is under way, from the decision to say it until the last answer."""
        self._has_failed = False
        """The last answer named partitions that couldn't be fetched from, or was an error as a whole."""

    async def run(self) -> None:
        """Until `close`; survives whatever happens to the connection."""
        while self._asked is not None or not self._closing:
            if self._asked is None:
                told = self._holdings.listen()
                now = self._holdings.clock()
                sent = self._next(now)
                if sent is not None:
                    await self._open_and_begin(sent)
                else:
                    await self._wait(told, now)
                    if self._asked is None:
                        continue
            await self._hear_out()
            if self._has_failed:
                await anyio.sleep(_PAUSE_AFTER_ERROR_S)
            else:
                # Whoever waited for this goes first: most have decided when it is our turn again.
                await checkpoint()

    def speak(self) -> None:
        """What is next leaves now, if only the turn of `run` has to be waited for; otherwise `run` finds it."""
        if self._asked is None and self._line.is_free and not self._has_failed and not self._closing:
            sent = self._next(self._holdings.clock())
            if sent is not None:
                self._begin(sent)

    def want(self, partitions: Sequence[Partition]) -> None:
        self.session.want(partitions)
        self._holdings.tell()

    @property
    def is_clear(self) -> bool:
        """Nothing decided is left to send, nothing is under way."""
        for acks in self.books.values():
            if acks.is_under_way or acks.has_decided:
                return False
        return True

    def stop(self) -> None:
        """End `run` after the request that is under way."""
        self._closing = True
        self._holdings.tell()

    async def close(self) -> None:
        """After `run` has ended: the last acknowledgements, and the end of the session."""
        if self.session.is_busy:
            self._lose("the consumer was closed while an answer was awaited", None)
        await self._settle_all()
        if self.session.is_open:
            await self._exchange(self.session.close({}))
        self.abandon()

    async def _settle_all(self) -> None:
        """Not along with the end of the session: what is refused then could be sent no more in smaller parts."""
        pause = _PAUSE_AT_THE_END_S
        before = None
        while self.session.is_open:
            self._holdings.expire(self.books)
            left = sum(
                lease.count_between(GAP, REJECT) for acks in self.books.values() for lease in acks.leases
            )
            if left == before:  # refused, or the broker can't do it now
                await anyio.sleep(pause)
                pause = min(2 * pause, _PAUSE_AFTER_ERROR_S)
            before = left
            taken = self._take(self.books.values())
            if not taken:
                return
            await self._exchange(self.session.acknowledge(taken))

    def abandon(self) -> None:
        """The session is no more, said or not: whoever waits for an outcome is told that it is open."""
        if self.session.is_open or self.session.is_busy or self.books:
            self._lose("the consumer was closed", None)

    def on_connection_closed(self, reason: str) -> None:
        """Also when no request was under way: everything acquired is lost with the session."""
        self._break_off(reason, ConnectionLost.__name__)

    def lose_topic(self, topic_id: bytes) -> None:
        """Nothing of this topic can be settled any more."""
        for partition in [partition for partition in self.books if partition[0] == topic_id]:
            self._holdings.lose(self.books[partition], "topic")

    def lose_moved(self, is_elsewhere: Callable[[Partition], bool]) -> None:
        """Locks don't move along with a leader. What is under way is left: its answer is the better word (rule 4)."""
        for partition, acks in self.books.items():
            if acks.leases and not acks.is_under_way and is_elsewhere(partition):
                self._holdings.lose(acks, "moved")

    # --- what is next

    def _next(self, now: float) -> Sent | None:
        holdings, session = self._holdings, self.session
        holdings.look_after_leases(self.books)
        wanted = session.wanted
        decided = [acks for acks in self.books.values() if acks.has_decided] if session.is_open else []
        if decided:
            renewals = self._take(decided, renewals=True)
            if renewals:
                return session.acknowledge(renewals, is_renewing=True)
            if not self.books.keys() <= wanted:
                # Those not wanted apart: along with a fetch, what they release would come back.
                strays = self._take([acks for acks in decided if acks.partition not in wanted])
                if strays:
                    return session.acknowledge(strays)
                decided = [acks for acks in decided if acks.partition in wanted]
        if session.has_news and (wanted or session.is_open):
            return self._fetch(decided)
        if not decided:
            self._decided_at = None
        elif self._decided_at is None:
            self._decided_at = now
        wants_more = bool(wanted) and holdings.wants_more
        if decided and (self._is_urgent(now) or (wants_more and self._is_confirmation_wanted)):
            taken = self._take(decided)
            if taken:
                return session.acknowledge(taken)
        return self._fetch(decided) if wants_more and self._grace(now) <= 0 else None

    def _is_urgent(self, now: float) -> bool:
        """Acknowledgements that go alone, at once: nothing is left to wait for, or they have waited."""
        holdings = self._holdings
        if holdings.committers or not self.session.wanted:
            return True
        waited = self._decided_at is not None and now >= self._decided_at + LINGER_S
        return waited and not (self._has_plenty and holdings.wants_more)

    @property
    def _is_confirmation_wanted(self) -> bool:
        """What rides on a fetch counts at once, but is confirmed only when the fetch is answered."""
        return self._holdings.has_committed and not self._has_plenty

    def _grace(self, now: float) -> float:
        """Seconds to wait before a fetch that may have to wait at the broker."""
        if self._has_plenty or not self._holdings.tally.undecided or self._holdings.is_asked:
            return 0.0
        return self._brought_at + GRACE_S - now

    def _fetch(self, decided: Iterable[PartitionAcks]) -> Sent:
        acks = self._take(decided)
        room = self._holdings.room
        mode = self._config.acquire
        limits = FetchLimits(
            max_records=room,
            batch_size=room,
            max_wait_ms=self._busy_wait_ms() if acks or self._holdings.tally.undecided else IDLE_WAIT_MS,
            max_bytes=self._appetite.bytes_for(len(self.session.wanted)),
            is_strict=mode == "records" or (mode == "auto" and room < STRICT_BELOW),
        )
        return self.session.fetch(limits, acks)

    def _busy_wait_ms(self) -> int:
        rate = self._holdings.pace.rate
        if not rate:
            return BUSY_WAIT_MS
        wait = min(IDLE_WAIT_MS, max(BUSY_WAIT_MS, int(_BUSY_SHARE * 1000 / rate)))
        if self._has_plenty:
            # What the broker has may all be locked by what is in hand: then it is there when that has been decided.
            wait = min(wait, max(1, int(1000 * self._holdings.tally.undecided / rate)))
        return wait

    def _take(self, decided: Iterable[PartitionAcks], *, renewals: bool = False) -> Acks:
        taken = {}
        for acks in decided:
            ranges = acks.take(renewals=renewals)
            if ranges:
                taken[acks.partition] = ranges
        if taken and not renewals:
            # What is decided from now on waits anew.
            self._decided_at = None
        return taken

    async def _wait(self, told: anyio.Event, now: float) -> None:
        """Until something can be different."""
        tally = self._holdings.tally
        tally.ring_at(self._holdings.pace.few)
        until = min(now + _LONGEST_WAIT_S, self._holdings.keeper.wake_at)
        if self._decided_at is None:
            tally.ring_at(tally.undecided - 1)
        else:
            until = min(until, self._decided_at + LINGER_S)
        if self.session.wanted and self._holdings.wants_more:
            tally.ring_at(0)
            until = min(until, now + self._grace(now))
        with anyio.move_on_after(max(0.001, until - now)):
            await told.wait()

    # --- exchanges

    async def _exchange(self, sent: Sent) -> None:
        await self._open_and_begin(sent)
        await self._hear_out()

    async def _open_and_begin(self, sent: Sent) -> None:
        self._asked = sent
        try:
            await self._line.open(self.on_connection_closed, self._config.request_timeout)
        except (ConnectionLost, RequestTimedOut) as error:
            self._fail(error)
        else:
            self._begin(sent)

    def _begin(self, sent: Sent) -> None:
        self._has_failed = False
        self._asked = sent
        self._line.begin(sent.request, self._on_response)

    async def _hear_out(self) -> None:
        """What is under way, if it could begin, and what follows from its answer at once."""
        if self._asked is not None:
            try:
                await self._line.hear_out(self._config.request_timeout)
            except (ConnectionLost, RequestTimedOut, DecodeError) as error:
                self._fail(error)

    def _fail(self, error: KshareError) -> None:
        self._has_failed = True
        self._asked = None
        self._break_off(str(error), type(error).__name__)

    def _on_response(self, response: Any) -> Request[Any] | None:
        assert self._asked is not None, "this answers it"
        self._asked = self._on_answer(self._asked, self.session.on_answer(self._asked, response))
        return None if self._asked is None else self._asked.request

    def _on_answer(self, sent: Sent, answer: Answer) -> Sent | None:
        """Takes it in. Gives what to ask before anybody else has a turn: something only where the broker has more."""
        if answer.is_stale:
            return None
        if answer.error:
            self._has_failed = True
            name = error_name(answer.error)
            self._lose(f"{name} {answer.message or ''}", name)
            if answer.error == ErrorCode.GROUP_AUTHORIZATION_FAILED:
                raise self._refusal(answer.error, Right("Read", "group", self._config.group))
            # Brokers up to 4.3 answer so when a topic was recreated: metadata has to say whether it was.
            self._on_moved(list(self.session.wanted), [], [])
            return None
        self._apply(sent, answer)
        for (topic_id, _), code in answer.failed.items():
            if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise self._refusal(code, Right("Read", "topic", self._name_of(topic_id) or topic_id.hex()))
        self._has_failed = bool(answer.failed)
        if self._has_failed or self._closing or not self._has_plenty:
            return None
        return self._next(self._holdings.clock())

    def _apply(self, sent: Sent, answer: Answer) -> None:
        lock_s = answer.lock_ms / 1000
        for partition in sent.acks:
            acks = self.books[partition]
            if partition in answer.unanswered:
                self._holdings.lose(acks)
            else:
                code = answer.acknowledged[partition]
                if code in MOVED:
                    self._holdings.remember(acks)
                self._holdings.on_outcomes(acks.on_answer(code))
                self._holdings.forget(acks)
                if not acks.leases:
                    del self.books[partition]
        if isinstance(sent.request, ShareFetchRequest):
            sizes, brought = [], 0
            for _, data in answer.acquired:
                sizes.append(len(data.records or b""))
                for one in data.acquired_records:
                    brought += one.last_offset - one.first_offset + 1
            self._has_plenty = brought >= min(PLENTY, (sent.request.max_records + 1) // 2)
            self._brought_at = self._holdings.clock()
            self._appetite.on_answer(sizes)
        for partition, data in answer.acquired:
            topic = self._name_of(partition[0])
            acks = self.books.setdefault(partition, PartitionAcks(partition))
            self._holdings.add(topic or "", acks, data, lock_s)
        if answer.failed or answer.leaders:
            self._on_moved(list(answer.failed), answer.leaders, answer.endpoints)
        self._holdings.tell()

    def _refusal(self, code: int, right: Right) -> NotAuthorized:
        return refusal(code, "fetching", right, self._config.net_settings())

    def _break_off(self, reason: str, why: str) -> None:
        """Whoever asks learns of a connection's end, and so does whoever doesn't: the first one tells."""
        if self.session.is_open or self.session.is_busy or self.books:
            self._lose(reason, why)

    def _lose(self, reason: str, why: str | None) -> None:
        """`why` in short, for observers; None where it is nothing to speak of."""
        log.info("session with node %d is over: %s", self.node, reason)
        if why is not None:
            self._holdings.reporter.tell(SessionEnded(self.node, why))
        self.session.reset()
        self._holdings.pace.on_lost()
        books, self.books = self.books, {}
        for acks in books.values():
            self._holdings.lose(acks)
