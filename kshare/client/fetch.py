"""The one task that speaks with one broker for a consumer: fetches, acknowledges, renews, opens the session anew.

Moves values between `net`, `state` and the consumer's holdings. All it decides is what the next request is for:

    renewals due                                → acknowledge them (a request of their own)
    refused acknowledgements to send again      → acknowledge, a piece at a time
    acknowledgements of partitions not wanted   → acknowledge them: along with a fetch they would be acquired anew
    partitions to forget, or to add and room    → fetch, acknowledgements go along
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
import math
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, Protocol

import anyio
from anyio.lowlevel import checkpoint

from kshare.client.arrivals import tell_ignored
from kshare.client.config import ConsumerConfig
from kshare.client.holdings import Holdings
from kshare.client.observer import SessionEnded
from kshare.client.unreadable import UnreadableAnswers
from kshare.errors import (
    ConfigError,
    ConnectionLost,
    DecodeError,
    FrameTooLarge,
    KshareError,
    NotAuthorized,
    RequestTimedOut,
)
from kshare.net.backoff import Backoff
from kshare.net.permissions import Right, refusal
from kshare.net.waiting import GoOn
from kshare.protocol.error_codes import ErrorCode, error_name
from kshare.protocol.message import Request
from kshare.protocol.messages.share_fetch_request import ShareFetchRequest
from kshare.state.acks import NOT_NOW, PartitionAcks
from kshare.state.appetite import Appetite
from kshare.state.cluster import Endpoint
from kshare.state.lease import Partition
from kshare.state.session import MOVED, Acks, Answer, FetchLimits, Leader, Sent, ShareSession


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
"""Of the time that the user spends on a record, or has let pass since anything was decided: an acknowledgement that
comes so much later makes no difference."""
_LOCK_SHARE = 0.1
"""Of the lock: it is counted from when a fetch is sent, so what a fetch waits is taken off it."""
LINGER_S = 0.05
"""How long acknowledgements wait for others, or for a fetch to go along with, while there is more in hand."""
GRACE_S = 0.005
"""How long to wait for a user who has just been given all there was: most decide at once, and then a fetch may wait."""
STRICT_BELOW = 500
"""Fetches for fewer records ask for exactly so many: a whole batch would be more than is got through soon."""
PLENTY = 500
"""A fetch that brings as many, or half of what it asked for, has left more behind: the next won't wait."""
_PAUSE_AFTER_ERROR_S = 0.1
"""The first time; longer with each further one, up to `backoff_max`."""
_CLOSING_SHARE = 0.25
"""Of the time that there is for closing, kept for the request that ends the session."""
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
        self.books = holdings.open_books()
        self._line = line
        self._config = config
        self._holdings = holdings
        self._name_of = name_of
        self._on_moved = on_moved
        settings = config.net_settings()
        self._appetite = Appetite(settings.max_response_bytes)
        self._backoff = Backoff(
            _PAUSE_AFTER_ERROR_S, max(_PAUSE_AFTER_ERROR_S, settings.backoff_max), Random()
        )
        self._unreadable = UnreadableAnswers()
        self._changed = anyio.Event()
        """Set where a pause after an error should end: other partitions are wanted, or it is all over."""
        self._closing = False
        self._sent_at = 0.0
        """When the request under way was, as `Holdings.stamp`."""
        self._lock_s = math.inf
        self._has_plenty = True
        self._brought_at = 0.0
        self._moved_at = 0.0
        """When records of this broker came, or acknowledgements of them left, last."""
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
            if self._has_failed and not self._closing:
                await self._pause()
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
        before = self.session.wanted
        self.session.want(partitions)
        if self.session.wanted != before:
            self._changed.set()
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
        self._changed.set()
        self._holdings.tell()

    async def close(self) -> None:
        """After `run` has ended: the last acknowledgements, and the end of the session.

        Acknowledgements leave before the request that ends the session, so that those refused can be sent again in
        pieces: one that comes too late harms no other. That goes on while there is time, which is what the scope that
        this is called in has left; then the session is ended.
        """
        self._closing = True
        started, deadline = anyio.current_time(), anyio.current_effective_deadline()
        until = deadline - _CLOSING_SHARE * (deadline - started) if deadline < math.inf else math.inf
        try:
            if self.session.is_busy:
                self._lose("the consumer was closed while an answer was awaited", None)
            while self.session.is_open and anyio.current_time() < until:
                self._holdings.look_after_leases()
                taken = self._take(self.books.values())
                if not taken:
                    break
                await self._exchange(self.session.acknowledge(taken))
                if self._has_failed and self.session.is_open:
                    await anyio.sleep(max(0.0, min(self._backoff.until, until) - self._holdings.clock()))
            if self.session.is_open:
                await self._exchange(self.session.close(self._take(self.books.values())))
        except KshareError as error:
            self._log(logging.INFO, f"the session with node {self.node} could not be closed cleanly", error)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """The session is over, closed or not: whoever waits for an outcome is told that it is open."""
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
        holdings.look_after_leases()
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
        wants_more = bool(wanted) and holdings.wants_more
        if session.has_news and (wants_more or (session.is_open and not wanted)):
            return self._fetch(decided)
        if not decided:
            self._decided_at = None
        elif self._decided_at is None:
            self._decided_at = now
        if decided and (self._is_urgent(now, decided) or (wants_more and self._is_confirmation_wanted)):
            taken = self._take(decided)
            if taken:
                return session.acknowledge(taken)
        return self._fetch(decided) if wants_more and self._grace(now) <= 0 else None

    def _is_urgent(self, now: float, decided: Iterable[PartitionAcks]) -> bool:
        """Acknowledgements that go alone, at once: nothing is left to wait for, or they have waited."""
        holdings = self._holdings
        if holdings.committers or not self.session.wanted:
            return True
        if any(acks.is_salvaging for acks in decided):
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
        room_in_bytes = max(1, self._holdings.bytes_left // max(1, self._holdings.sources))
        mode = self._config.acquire
        limits = FetchLimits(
            max_records=room,
            batch_size=room,
            max_wait_ms=self._wait_ms(bool(acks)),
            max_bytes=min(room_in_bytes, self._appetite.bytes_for(len(self.session.wanted))),
            is_strict=mode == "records" or (mode == "auto" and room < STRICT_BELOW),
        )
        return self.session.fetch(limits, acks)

    def _wait_ms(self, is_acknowledging: bool) -> int:
        """How long the broker may wait for records: the sooner decisions may come, the shorter."""
        longest = min(IDLE_WAIT_MS, max(BUSY_WAIT_MS, int(1000 * min(1.0, _LOCK_SHARE * self._lock_s))))
        if not is_acknowledging and not any(acks.leases for acks in self.books.values()):
            return longest
        pace = self._holdings.pace
        quiet_s = self._holdings.clock() - max(self._moved_at, pace.handed_at)
        wait_s = _BUSY_SHARE * max(1 / pace.rate if pace.rate else 0.0, quiet_s)
        wait = max(BUSY_WAIT_MS, int(1000 * min(1.0, wait_s)))
        if self._has_plenty and pace.rate:
            # What the broker has may all be locked by what is in hand: then it is there when that has been decided.
            wait = min(wait, max(1, int(1000 * self._holdings.tally.undecided / pace.rate)))
        return min(wait, longest)

    def _take(self, decided: Iterable[PartitionAcks], *, renewals: bool = False) -> Acks:
        taken = {}
        for acks in decided:
            ranges = acks.take(renewals=renewals)
            if ranges:
                taken[acks.partition] = ranges
        if taken and not renewals:
            # What is decided from now on waits anew.
            self._decided_at = None
            self._moved_at = self._holdings.clock()
        return taken

    async def _pause(self) -> None:
        """After an error, unless other partitions are wanted meanwhile."""
        self._changed = anyio.Event()
        with anyio.move_on_after(self._backoff.until - self._holdings.clock()):
            await self._changed.wait()

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
        self._sent_at = self._holdings.stamp()
        self._line.begin(sent.request, self._on_response)

    async def _hear_out(self) -> None:
        """What is under way, if it could begin, and what follows from its answer at once."""
        if self._asked is not None:
            try:
                await self._line.hear_out(self._config.request_timeout)
            except (ConnectionLost, RequestTimedOut, DecodeError) as error:
                self._fail(error)

    def _fail(self, error: KshareError) -> None:
        self._note_failure()
        self._asked = None
        if isinstance(error, RequestTimedOut):
            self._log(logging.WARNING, f"node {self.node} does not answer", error)
        self._break_off(str(error), type(error).__name__)
        if not self._closing:
            if isinstance(error.__cause__, FrameTooLarge):
                raise self._too_large(error.__cause__) from error
            self._unreadable.note(error, f"node {self.node}", self._holdings.clock())
            # Its partitions may be led by others by now: metadata has to say by whom.
            self._on_moved(list(self.session.wanted), [], [])

    def _note_failure(self) -> None:
        self._has_failed = True
        self._backoff.on_failure(self._holdings.clock())

    def _too_large(self, error: FrameTooLarge) -> ConfigError:
        """Fetched again and again, these records would run out of deliveries and be archived."""
        named = sorted(
            f"{self._name_of(topic_id) or topic_id.hex()}[{number}]"
            for topic_id, number in self.session.wanted
        )
        batch_of = named[0] if len(named) == 1 else f"one of {', '.join(named)}"
        return ConfigError(
            f"node {self.node} answers a fetch with {error.size} bytes, and max_response_bytes is {error.limit}: a "
            f"record batch of {batch_of} is larger than that. Set max_response_bytes to {2 * error.size} or more"
        )

    def _on_response(self, response: Any) -> Request[Any] | None:
        assert self._asked is not None, "this answers it"
        self._asked = self._on_answer(self._asked, self.session.on_answer(self._asked, response))
        if self._asked is None:
            return None
        self._sent_at = self._holdings.stamp()
        return self._asked.request

    def _on_answer(self, sent: Sent, answer: Answer) -> Sent | None:
        """Takes it in. Gives what to ask before anybody else has a turn: something only where the broker has more."""
        if answer.is_stale:
            return None
        if answer.error:
            name = error_name(answer.error)
            if answer.error == ErrorCode.SHARE_SESSION_LIMIT_REACHED and not self._backoff.failures:
                cause = (
                    f"node {self.node} has no room for another share session: trying again until others end"
                )
                self._log(
                    logging.WARNING, cause, f"{name}; its setting group.share.max.share.sessions allows more"
                )
            self._note_failure()
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
        if answer.failed or any(code in NOT_NOW for code in answer.acknowledged.values()):
            if answer.acquired:
                # Others of its partitions are well: they wait no longer than after a first failure.
                self._backoff.on_success()
            self._note_failure()
        else:
            self._has_failed = False
            self._backoff.on_success()
        if self._has_failed or self._closing or not self._has_plenty:
            return None
        return self._next(self._holdings.clock())

    def _apply(self, sent: Sent, answer: Answer) -> None:
        lock_s = answer.lock_ms / 1000
        sent_at = self._holdings.time_of(self._sent_at)
        if lock_s > 0:
            self._lock_s = lock_s
        for partition in sent.acks:
            acks = self.books[partition]
            if partition in answer.unanswered:
                self._holdings.lose(acks)
            else:
                code = answer.acknowledged[partition]
                if code in MOVED:
                    self._holdings.remember(acks)
                self._holdings.on_answered(acks, code, sent_at)
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
            if brought:
                self._moved_at = self._brought_at
                self._unreadable.on_useful()
            self._appetite.on_answer(sizes)
        for partition, data in answer.acquired:
            topic = self._name_of(partition[0])
            if partition not in self.books:
                self.books[partition] = PartitionAcks(partition)
            self._holdings.add(topic or "", self.books[partition], data, lock_s, sent_at)
        for topic_id, number in answer.unexpected:
            topic = self._name_of(topic_id) or topic_id.hex()
            what = f"node {self.node} answered for it though it wasn't asked to, or twice"
            tell_ignored(self._holdings.reporter, topic, number, what)
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
        self._log(logging.INFO, f"session with node {self.node} ended", reason)
        if why is not None:
            self._holdings.reporter.tell(SessionEnded(self.node, why))
        self.session.reset()
        self._holdings.pace.on_lost()
        lost = list(self.books.values())
        self.books.clear()
        for acks in lost:
            self._holdings.lose(acks)

    def _log(self, level: int, cause: str, detail: object) -> None:
        self._holdings.reporter.log.event(level, cause, detail)
