"""The one task that speaks with one broker for a consumer: fetches, acknowledges, renews, opens the session anew.

Moves values between `net`, `state` and the consumer's holdings. All it decides is what the next request is for:

    renewals due                                     → acknowledge them (a request of their own)
    room for records, or partitions to add or forget → fetch, acknowledgements go along
    acknowledgements alone                           → acknowledge
    nothing                                          → wait for a decision, or for a lease to be looked after
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio

from kshare.client.config import ConsumerConfig
from kshare.client.holdings import Holdings
from kshare.errors import ConnectionLost, DecodeError, RequestTimedOut
from kshare.protocol.error_codes import error_name
from kshare.protocol.message import Request
from kshare.state.acks import PartitionAcks
from kshare.state.session import Acks, Answer, FetchLimits, Leader, Partition, Sent, ShareSession

log = logging.getLogger("kshare.client")

Ask = Callable[[Request[Any], float], Awaitable[Any]]
"""Sends a request to this broker and waits for its answer, so many seconds at most."""

IDLE_WAIT_MS = 500
"""How long the broker may wait for records while nobody waits for an acknowledgement to leave."""
BUSY_WAIT_MS = 50
"""The same while records are in the user's hands: their acknowledgements wait behind this fetch."""
_PAUSE_AFTER_ERROR_S = 0.1


class NodeSession:
    """`on_moved` is told of partitions that are no longer led by this broker, and where they are if it says so."""

    def __init__(
        self,
        node: int,
        session: ShareSession,
        ask: Ask,
        config: ConsumerConfig,
        holdings: Holdings,
        name_of: Callable[[bytes], str | None],
        on_moved: Callable[[Sequence[Partition], Sequence[Leader]], None],
    ) -> None:
        self.node = node
        self.session = session
        self.books: dict[Partition, PartitionAcks] = {}
        self._ask = ask
        self._config = config
        self._holdings = holdings
        self._name_of = name_of
        self._on_moved = on_moved
        self._closing = False

    async def run(self) -> None:
        """Until `close`; survives whatever happens to the connection."""
        while not self._closing:
            decided = self._holdings.listen()
            self._holdings.look_after_leases(self.books)
            sent = self._next()
            if sent is None:
                await self._wait(decided)
            elif not await self._exchange(sent):
                await anyio.sleep(_PAUSE_AFTER_ERROR_S)

    def want(self, partitions: Sequence[Partition]) -> None:
        self.session.want(partitions)
        self._holdings.tell()

    @property
    def is_clear(self) -> bool:
        """Nothing decided is left to send, nothing is under way."""
        return not any(acks.has_decided or acks.is_under_way for acks in self.books.values())

    def stop(self) -> None:
        """End `run` after the request that is under way."""
        self._closing = True
        self._holdings.tell()

    async def close(self) -> None:
        """After `run` has ended: the last acknowledgements, and the end of the session."""
        if self.session.is_busy:
            self._lose("the consumer was closed while an answer was awaited")
        if self.session.is_open:
            await self._exchange(self.session.close(self._take(renewals=False)))
        self._lose("the consumer was closed")

    def on_connection_closed(self, reason: str) -> None:
        """Also when no request was under way: everything acquired is lost with the session."""
        if self.session.is_open or self.books:
            self._lose(reason)

    def lose_topic(self, topic_id: bytes) -> None:
        """Nothing of this topic can be settled any more."""
        for partition in [partition for partition in self.books if partition[0] == topic_id]:
            self._holdings.lose(self.books[partition])

    # --- what is next

    def _next(self) -> Sent | None:
        if self.session.is_open:
            renewals = self._take(renewals=True)
            if renewals:
                return self.session.acknowledge(renewals, is_renewing=True)
        if self.session.has_news and (self.session.wanted or self.session.is_open):
            return self._fetch()
        if self.session.wanted and self._has_room():
            return self._fetch()
        acks = self._take(renewals=False)
        return self.session.acknowledge(acks) if acks else None

    def _has_room(self) -> bool:
        """Fetching early keeps the user busy; fetching for little room costs a round trip for little."""
        held = self._holdings.held
        return held == 0 or (self._holdings.waiting == 0 and held <= self._holdings.most // 2)

    def _fetch(self) -> Sent:
        held = self._holdings.held
        room = max(1, self._holdings.most - held)
        limits = FetchLimits(
            max_records=room,
            batch_size=room,
            max_wait_ms=BUSY_WAIT_MS if held else IDLE_WAIT_MS,
            is_strict=self._config.acquire == "records",
        )
        return self.session.fetch(limits, self._take(renewals=False))

    def _take(self, *, renewals: bool) -> Acks:
        if not self.session.is_open:
            return {}
        found = {partition: acks.take(renewals=renewals) for partition, acks in self.books.items()}
        return {partition: ranges for partition, ranges in found.items() if ranges}

    async def _wait(self, decided: anyio.Event) -> None:
        wake_at = self._holdings.keeper.wake_at
        pause = 60.0 if wake_at is None else max(0.01, wake_at - anyio.current_time())
        with anyio.move_on_after(pause):
            await decided.wait()

    # --- an exchange

    async def _exchange(self, sent: Sent) -> bool:
        try:
            answer = self.session.on_answer(sent, await self._ask(sent.request, self._config.request_timeout))
        except (ConnectionLost, RequestTimedOut, DecodeError) as error:
            self._lose(str(error))
            return False
        if answer.is_stale:
            return True
        if answer.error:
            self._lose(f"{error_name(answer.error)} {answer.message or ''}")
            # Brokers up to 4.3 answer so when a topic was recreated: metadata has to say whether it was.
            self._on_moved(list(self.session.wanted), [])
            return False
        self._apply(sent, answer)
        return not answer.failed

    def _apply(self, sent: Sent, answer: Answer) -> None:
        lock_s = answer.lock_ms / 1000
        for partition in sent.acks:
            acks = self.books[partition]
            if partition in answer.unanswered:
                self._holdings.lose(acks)
            else:
                self._holdings.on_outcomes(acks.on_answer(answer.acknowledged[partition]))
                self._holdings.forget(acks)
        for partition, data in answer.acquired:
            topic = self._name_of(partition[0])
            acks = self.books.setdefault(partition, PartitionAcks(partition))
            self._holdings.add(topic or "", acks, data, lock_s)
        if answer.failed or answer.leaders:
            self._on_moved(list(answer.failed), answer.leaders)
        self._holdings.tell()

    def _lose(self, reason: str) -> None:
        log.info("session with node %d is over: %s", self.node, reason)
        self.session.reset()
        books, self.books = self.books, {}
        for acks in books.values():
            self._holdings.lose(acks)
