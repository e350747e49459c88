"""The task for one broker: sends the requests that `state/request_planner` decides on, and processes responses.

Moves values between the connection, the session's state and the lease book; what failures mean is for
`session_failures`. Decides nothing but whose turn it is.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from kshare.engine.events import SessionEnded
from kshare.engine.fetch_connection import FetchConnection
from kshare.engine.lease_book import LeaseBook
from kshare.engine.notifier import Notifier
from kshare.engine.session_failures import SessionFailures
from kshare.engine.settings import MemberSettings
from kshare.errors import ConnectionLost, DecodeError, KshareError, RequestTimedOut
from kshare.net.pending import PendingRequest
from kshare.protocol.error_codes import error_name
from kshare.protocol.message import Request
from kshare.protocol.messages import ShareFetchRequest
from kshare.state.acks import PartitionAcks
from kshare.state.cluster import NodeEndpoint
from kshare.state.lease import TopicIdPartition
from kshare.state.request_planner import Demand, RequestPlanner
from kshare.state.session import FINAL_EPOCH, Leader, SentRequest, SessionResponse, ShareSession

_CLOSING_SHARE = 0.25
"""The share of the closing time that is reserved for the request that closes the session."""
_NAMED = 5
"""The maximum number of partitions in a log line."""


class NodeSession:
    """`on_moved` is called with partitions that this broker no longer leads, and their new leaders if known."""

    def __init__(
        self,
        node: int,
        session: ShareSession,
        connection: FetchConnection,
        settings: MemberSettings,
        book: LeaseBook,
        name_of: Callable[[bytes], str | None],
        on_moved: Callable[[Sequence[TopicIdPartition], Sequence[Leader], Sequence[NodeEndpoint]], None],
    ) -> None:
        self.node = node
        self.brokers = 1
        """How many brokers share the holder's capacity."""
        self.session = session
        self.partition_acks = book.open_session()
        self._connection = connection
        self._timeout = settings.net.request_timeout
        self._book = book
        self._clock = book.clock
        self._name_of = name_of
        self._on_moved = on_moved
        self._planner = RequestPlanner(
            session,
            self.partition_acks,
            acquire=settings.acquire,
            max_response_bytes=settings.net.max_response_bytes,
            request_timeout=settings.net.request_timeout,
        )
        self._failures = SessionFailures(node, settings, name_of, book.reporter)
        self._changed = Notifier()
        """Sent when a pause after an error should end: other partitions are wanted, or the session is being closed."""
        self._closing = False
        self.is_restarting = False
        self._is_reconnecting = False
        """Whether the connection is closed too, when the session has ended."""
        self._assigned: frozenset[TopicIdPartition] = frozenset()
        """Partitions to fetch from. The session leaves out those that are paused: see `UnseenReleases`."""
        self._pending: PendingRequest | None = None
        """The response that `run` waits for. The request is `session.under_way`."""
        self._sent_at = 0.0
        """As `LockClock.stamp`."""

    async def run(self) -> None:
        """Run until `close`. Connection errors don't end it."""
        while self._pending is not None or not self._closing:
            if self._pending is None:
                changed = self._book.changed.next()
                following = self._next()
                if following is not None:
                    await self._open_and_send(following)
                else:
                    await self._wait(changed)
                    if self._pending is None:
                        continue
            await self._wait_for_response()
            if self._failures.is_failing and not self._closing:
                await self._pause()
            else:
                # Let callers that waited for this run first: most have acknowledged by the time this task continues.
                await checkpoint()

    def flush(self) -> None:
        """Send the next request now, if nothing is under way. Otherwise `run` sends it later."""
        if self.session.under_way is not None or self._pending is not None:
            return
        if self._connection.is_free and not self._failures.is_failing and not self._closing:
            following = self._next()
            if following is not None:
                self._send(following)

    def want(self, partitions: Sequence[TopicIdPartition]) -> None:
        before, self._assigned = self._assigned, frozenset(partitions)
        if self._assigned != before:
            self._leave_out_paused()
            self._changed.send()
        self._book.changed.send()

    @property
    def is_fetching(self) -> bool:
        """Whether the request that is under way may return records."""
        sent = self.session.under_way
        return sent is not None and isinstance(sent.request, ShareFetchRequest)

    @property
    def responds_early(self) -> bool:
        """Whether the broker responds to fetches at once, without records, again and again."""
        return self._planner.empty_responses.are_remarkable

    @property
    def is_settled(self) -> bool:
        """No acknowledgement is unsent or unconfirmed."""
        for acks in self.partition_acks.values():
            if acks.is_under_way or acks.has_decided:
                return False
        return True

    def restart(self) -> None:
        """End the session as soon as all acknowledgements have had a response. `run` opens another one."""
        self.is_restarting = self.session.is_open or self.session.under_way is not None
        self._book.changed.send()

    def stop(self) -> None:
        """Let `run` end after the request that is under way."""
        self._closing = True
        self._changed.send()
        self._book.changed.send()

    async def close(self) -> None:
        """Send the last acknowledgements and close the session. Called after `run` has ended.

        Acknowledgements leave before the request that ends the session, so that those refused can be sent again in
        pieces: one that comes too late harms no other. That goes on while there is time, which is what the scope that
        this is called in has left; then the session is ended.
        """
        self._closing = True
        started, deadline = anyio.current_time(), anyio.current_effective_deadline()
        until = deadline - _CLOSING_SHARE * (deadline - started) if deadline < math.inf else math.inf
        try:
            if self.session.under_way is not None:
                self._lose("the consumer was closed while a response was awaited", None)
            for partition, acks in self.partition_acks.items():
                if not self.session.has(partition):
                    self._book.release_rest(acks)
            while self.session.is_open and anyio.current_time() < until:
                self._book.check_leases()
                sent = self._planner.settle(self._clock.now())
                if sent is None:
                    break
                await self._exchange(sent)
                if self._failures.is_failing and self.session.is_open:
                    await anyio.sleep(max(0.0, min(self._failures.pause_until, until) - self._clock.now()))
            if self.session.is_open:
                await self._exchange(self._planner.end(self._clock.now()))
        except KshareError as error:
            cause = f"the session with node {self.node} could not be closed cleanly"
            self._book.reporter.log.event(logging.INFO, cause, error)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """End the session, closed or not. Outcomes that are still pending are reported as open."""
        self._abort("the consumer was closed", None)

    def on_connection_closed(self, cause: str) -> None:
        """Called even if no request was under way: all acquired records are lost with the session."""
        self._abort(cause, ConnectionLost.__name__)

    def lose_topic(self, topic_id: bytes) -> None:
        """Records of this topic can no longer be settled."""
        for partition in [partition for partition in self.partition_acks if partition[0] == topic_id]:
            self._book.lose(self.partition_acks[partition], "topic")

    def lose_moved(self, is_elsewhere: Callable[[TopicIdPartition], bool]) -> None:
        """Locks don't move with the leader. Requests under way are left alone: their response decides (rule 4)."""
        for partition, acks in self.partition_acks.items():
            if acks.leases and not acks.is_under_way and is_elsewhere(partition):
                self._book.lose(acks, "moved")

    # --- exchanges

    def _next(self) -> SentRequest | None:
        self._book.check_leases()
        self._leave_out_paused()
        now = self._clock.now()
        if self.is_restarting and self.session.is_open:
            return self._planner.settle(now) or self._planner.end(now)
        return self._planner.next(self._demand(), now)

    def _demand(self) -> Demand:
        book, commits = self._book, self._book.commits
        return Demand(
            book.holder, self.brokers, book.counter.undecided, commits.is_confirming, commits.has_committed
        )

    def _leave_out_paused(self) -> None:
        unseen, wanted = self._book.unseen, self._assigned
        if len(unseen):
            now = self._clock.now()
            wanted = frozenset(partition for partition in wanted if not unseen.is_paused(partition, now))
        self.session.want(wanted)

    async def _wait(self, changed: anyio.Event) -> None:
        """Wait until there may be something to send."""
        now = self._clock.now()
        later = self._planner.next_check(self._demand(), now)
        self._book.counter.notify_at(later.undecided)
        at = min(later.at, self._book.wake_at, self._book.unseen.next_end(now))
        with anyio.move_on_after(max(0.001, at - now)):
            await changed.wait()

    async def _pause(self) -> None:
        """Wait after an error, until other partitions are wanted at the latest."""
        with anyio.move_on_after(self._failures.pause_until - self._clock.now()):
            await self._changed.wait()

    async def _exchange(self, sent: SentRequest) -> None:
        await self._open_and_send(sent)
        await self._wait_for_response()

    async def _open_and_send(self, sent: SentRequest) -> None:
        try:
            await self._connection.open(self.on_connection_closed, self._timeout)
        except (ConnectionLost, RequestTimedOut) as error:
            self._fail(error)
        else:
            self._send(sent)

    def _send(self, sent: SentRequest) -> None:
        self._failures.on_sent()
        self._sent_at = self._clock.stamp()
        self._pending = self._connection.send(sent.request, self._on_response)

    async def _wait_for_response(self) -> None:
        """Wait for the response to the request, if it was sent, and to those that followed it."""
        if self._pending is not None:
            try:
                await self._connection.wait_for_response(self._pending, self._timeout)
            except (ConnectionLost, RequestTimedOut, DecodeError) as error:
                self._fail(error)

    def _on_response(self, _: PendingRequest, response: Any) -> Request[Any] | None:
        """Returns the request to send at once, before other tasks run: only if the broker has more records."""
        sent = self.session.under_way
        following = self._take(sent, self.session.on_response(sent, response)) if sent is not None else None
        if following is None:
            self._pending = None
            return None
        self._sent_at = self._clock.stamp()
        return following.request

    # --- responses

    def _take(self, sent: SentRequest, response: SessionResponse) -> SentRequest | None:
        now = self._clock.now()
        if response.error:
            name = error_name(response.error)
            self._failures.on_error(response, now)
            self._lose(f"{name} {response.message or ''}", name)
            self._failures.check_rights(response)
            # Brokers up to 4.3 respond so if a topic was recreated: check with metadata.
            self._on_moved(list(self._assigned), [], [])
            return None
        self._process(sent, response)
        if self.is_restarting and sent.request.share_session_epoch == FINAL_EPOCH:
            is_reconnecting = self._is_reconnecting
            self._lose("it was restarted", None)
            if is_reconnecting:
                self._connection.close("its session is opened again")
        self._failures.on_response(response, now)
        if self._failures.is_failing or self._closing or not self._planner.broker_has_more:
            return None
        return self._next()

    def _process(self, sent: SentRequest, response: SessionResponse) -> None:
        book = self._book
        sent_at = self._clock.time_of(self._sent_at)
        for partition in sent.acks:
            acks = self.partition_acks[partition]
            if partition in response.without_response:
                book.lose(acks)
            else:
                book.on_responded(acks, response.acknowledged[partition], sent_at, response.lock_ms / 1000)
                if not acks.leases:
                    del self.partition_acks[partition]
        self._planner.on_response(sent, response, self._clock.now())
        for partition, data in response.acquired:
            topic = self._name_of(partition[0])
            if partition not in self.partition_acks:
                self.partition_acks[partition] = PartitionAcks(partition)
            book.acquire(topic or "", self.partition_acks[partition], data, response.lock_ms / 1000, sent_at)
        for topic_id, number in response.unexpected:
            topic = self._name_of(topic_id) or topic_id.hex()
            reason = f"node {self.node} responded for it though it wasn't asked to, or twice"
            book.reporter.ignored(topic, number, reason)
        self._look_at_empty_responses()
        if response.failed or response.leaders:
            self._on_moved(list(response.failed), response.leaders, response.endpoints)
        book.changed.send()

    def _look_at_empty_responses(self) -> None:
        """See `state/empty_responses`."""
        responses, now = self._planner.empty_responses, self._clock.now()
        if not responses.are_remarkable:
            return
        wanted = sorted(self.session.wanted)
        names = [f"{self._name_of(topic) or topic.hex()}[{number}]" for topic, number in wanted]
        ellipsis = ", ..." if len(names) > _NAMED else ""
        cause = f"node {self.node} responds to fetches at once, without records: fetching less often"
        is_holding = any(acks.leases for acks in self.partition_acks.values())
        is_reopening = responses.should_reopen(now) and not is_holding and not self.is_restarting
        if is_reopening:
            cause = (
                f"node {self.node} responds to fetches at once, without records: the session with it is opened again, "
                "so that it reads the state of the group again. That helps if records were deleted in the middle of a "
                "producer batch, unless other members have sessions with it: if a partition stays blocked, stop all "
                "consumers of the group at the same time, then start them again"
            )
            responses.on_reopening(now)
            self.restart()
            self._is_reconnecting = self.is_restarting
        self._book.reporter.log.event(
            logging.WARNING, cause, f"partitions {', '.join(names[:_NAMED])}{ellipsis}"
        )

    # --- failures

    def _fail(self, error: KshareError) -> None:
        """There was no response, or none that can be decoded."""
        now = self._clock.now()
        self._pending = None
        self._failures.on_no_response(error, now)
        self._abort(str(error), type(error).__name__)
        if not self._closing:
            self._failures.check_readable(error, self.session.wanted, now)
            # The partitions may have other leaders by now: ask for metadata.
            self._on_moved(list(self._assigned), [], [])

    def _abort(self, cause: str, reason: str | None) -> None:
        """Called by the waiting task and by the connection: the first call loses the session."""
        if self.session.is_open or self.session.under_way is not None or self.partition_acks:
            self._lose(cause, reason)

    def _lose(self, cause: str, reason: str | None) -> None:
        """`reason` is short, for observers; None if there is nothing to report."""
        self._book.reporter.log.event(logging.INFO, f"session with node {self.node} ended", cause)
        if reason is not None:
            self._book.reporter.report(SessionEnded(self.node, reason))
        self.session.reset()
        self.is_restarting = self._is_reconnecting = False
        self._book.end_session(self.partition_acks)
