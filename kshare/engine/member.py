"""A member of a share group: sends heartbeats, and runs a task for each leader of assigned partitions.

Drives `state/membership` and `state/cluster` with `net`. Decides nothing itself but which task fetches from which
broker: each partition from its leader, as metadata has it.
"""

from __future__ import annotations

import base64
import logging
import math
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup

from kshare.engine import events
from kshare.engine.delivery_limit import ASK_EVERY_S, limit_in, limit_request
from kshare.engine.fetch_connection import FetchConnection
from kshare.engine.lease_book import LeaseBook
from kshare.engine.node_session import NodeSession
from kshare.engine.notifier import Notifier
from kshare.engine.settings import MemberSettings
from kshare.engine.unreadable import UnreadableResponses
from kshare.errors import BrokerError, ConnectionLost, DecodeError, KshareError, RequestTimedOut
from kshare.net.permissions import Right, missing_right, refusal
from kshare.net.pool import Pool
from kshare.protocol.error_codes import error_name
from kshare.protocol.message import Message, Request
from kshare.state.cluster import ClusterView, NodeEndpoint, Rebootstrap, TopicDeleted
from kshare.state.lease import Lease, TopicIdPartition
from kshare.state.membership import (
    AssignmentChanged,
    Failed,
    GroupFull,
    Joined,
    Membership,
    MembershipLost,
    MembershipState,
)
from kshare.state.session import Leader, ShareSession
from kshare.surroundings import monotonic, random_bytes

log = logging.getLogger("kshare.client")

ResponseT = TypeVar("ResponseT", bound=Message)

_NO_RESPONSE = (ConnectionLost, RequestTimedOut, DecodeError)
_LONGEST_SLEEP_S = 1.0
_SHARE_OF_SESSIONS = 0.5
"""The share of `close_timeout` for closing sessions. The rest is for leaving the group."""
_NOT_LEFT = (
    "group %s: couldn't leave: %s; this member's partitions aren't reassigned until the coordinator notices, "
    "after share.session.timeout.ms"
)
_SILENT = "its coordinator didn't respond"
_LIMIT_S = 1.0
"""How long closing waits for the delivery count limit, to say rightly which records are archived."""


def new_member_id() -> str:
    """A uuid in Kafka's format, the only one with which Kafka 4.1 allows fetches."""
    return base64.urlsafe_b64encode(uuid.UUID(bytes=random_bytes(16), version=4).bytes).decode().rstrip("=")


class GroupMember:
    """`failure` is set when an error occurs that retrying won't fix."""

    def __init__(
        self,
        settings: MemberSettings,
        pool: Pool,
        book: LeaseBook,
        tasks: TaskGroup,
        member_id: str | None = None,
        on_failed: Callable[[], None] = lambda: None,
    ) -> None:
        """With the id of a member that crashed, this one replaces it at once, before its session times out.

        `on_failed` is called when `failure` is set: the member neither fetches nor acknowledges any more.
        """
        self.failure: Exception | None = None
        self._on_failed = on_failed
        self.topics = settings.topics
        self._settings = settings
        self._pool = pool
        self._book = book
        self.brokers = 0
        """The number of brokers that are fetched from."""
        self._clock = book.clock.now
        self.heard_at = monotonic()
        """When a broker last responded to a request other than a fetch. There are some all the time: heartbeats."""
        self._tasks = tasks
        self._reporter = book.reporter
        self._reported: frozenset[TopicIdPartition] = frozenset()
        self._membership = Membership(
            settings.group, member_id or new_member_id(), settings.topics, settings.rack
        )
        self._cluster = ClusterView()
        self._cluster.want(settings.topics)
        self._nodes: dict[int, NodeSession] = {}
        self._ended: dict[int, anyio.Event] = {}
        self._is_closing = False
        """Whether sessions are closed, and no others are opened: they would acquire records for nobody."""
        self._wakeup = Notifier()
        book.on_redelivered = self._wakeup.send
        self._limit_asked_at = -math.inf
        self._is_limit_known = False
        self._unreadable = UnreadableResponses()

    @property
    def is_settled(self) -> bool:
        """No acknowledgement is unsent or unconfirmed."""
        for node in self._nodes.values():
            if not node.is_settled:
                return False
        return True

    @property
    def is_fetching(self) -> bool:
        """Whether a broker may still respond with records."""
        return any(node.is_fetching for node in self._nodes.values())

    @property
    def responds_early(self) -> bool:
        """Whether a broker responds to fetches at once, without records, again and again."""
        return any(node.responds_early for node in self._nodes.values())

    def flush(self) -> None:
        """Send what can be sent now; the tasks of the sessions send the rest when they run."""
        for node in self._nodes.values():
            node.flush()
        self._book.changed.send()

    async def restart_sessions(self) -> None:
        """End all sessions, and open others. Acknowledgements are sent before; all other records are lost.

        Kafka 4.1 doesn't count deliveries that end with their session.
        """
        for node in self._nodes.values():
            node.restart()
        while any(node.is_restarting for node in self._nodes.values()):
            changed = self._book.changed.next()
            with anyio.move_on_after(_LONGEST_SLEEP_S):
                await changed.wait()

    @property
    def member_id(self) -> str:
        return self._membership.member_id

    def name_of(self, topic_id: bytes) -> str | None:
        return self._cluster.name_of(topic_id)

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Replace the topics. The coordinator is notified at once, and other topics are no longer fetched."""
        self._membership.subscribe(topics, anyio.current_time())
        self.topics = topics
        self._cluster.want(topics, self._membership.assignment)
        self._assign_to_nodes()
        self._wakeup.send()

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._repeat, self._heartbeat)
            tasks.start_soon(self._repeat, self._refresh_metadata)
            tasks.start_soon(self._repeat, self._learn_limit)

    async def close(self) -> None:
        """Send acknowledgements, release all other records, leave the group.

        The group is left when all sessions are closed. A broker that doesn't respond delays that for a part of
        `close_timeout` only. Errors are raised at the end, so that they don't prevent the remaining steps.
        """
        self._is_closing = True
        settled = anyio.Event()
        problems: list[Exception] = []
        if self._book.has_redelivered and not self._is_limit_known:
            with anyio.move_on_after(min(_LIMIT_S, self._settings.close_timeout * _SHARE_OF_SESSIONS)):
                await self._ask_limit()

        async def close_nodes() -> None:
            async with anyio.create_task_group() as nodes:
                for number, node in list(self._nodes.items()):
                    nodes.start_soon(self._close_node, number, node, problems)
            settled.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(close_nodes)
            with anyio.move_on_after(self._settings.close_timeout * _SHARE_OF_SESSIONS):
                await settled.wait()
            try:
                await self._leave()
            except Exception as error:
                problems.append(error)
        self._report_assignment({})
        for other in problems[1:]:
            log.error("another error while the consumer was closed", exc_info=other)
        if problems:
            raise problems.pop(0)  # no variable has it any more: see `kshare.errors`

    @property
    def has_left(self) -> bool:
        """Whether the coordinator has confirmed that it left the group."""
        return self._membership.state is MembershipState.LEFT

    async def _leave(self) -> None:
        membership, problem = self._membership, ""
        membership.leave(anyio.current_time())
        try:
            while membership.state is MembershipState.LEAVING:
                wake_at = await self._heartbeat()
                if membership.state is MembershipState.LEAVING:
                    await self._pause(wake_at)
        except KshareError as error:
            problem = str(error)
        if not self.has_left:
            log.warning(_NOT_LEFT, self._settings.group, problem or membership.last_error or _SILENT)

    async def _close_node(self, number: int, node: NodeSession, problems: list[Exception]) -> None:
        node.stop()
        try:
            await self._ended[number].wait()
            await node.close()
        except Exception as error:
            problems.append(error)
        finally:
            node.abandon()

    @property
    def leases(self) -> Iterator[Lease]:
        """The leases of all sessions."""
        for node in self._nodes.values():
            for acks in node.partition_acks.values():
                yield from acks.leases

    # --- tasks

    async def _repeat(self, step: Callable[[], Awaitable[float | None]]) -> None:
        """Run a step repeatedly, and sleep in between for as long as it returns, or until there is news."""
        while self.failure is None and self._membership.state is not MembershipState.LEFT:
            try:
                wake_at = await step()
            except Exception as error:
                self._fail(error)
                return
            self._reporter.log.log_due()
            await self._pause(wake_at)

    async def _pause(self, wake_at: float | None) -> None:
        longest = _LONGEST_SLEEP_S if wake_at is None else wake_at - anyio.current_time()
        with anyio.move_on_after(min(max(0.0, longest), _LONGEST_SLEEP_S)):
            await self._wakeup.wait()

    async def _heartbeat(self) -> float | None:
        membership = self._membership
        lookup = membership.find_coordinator(anyio.current_time())
        if lookup:
            try:
                response = await self._ask(None, lookup)
            except Exception as error:
                membership.on_no_response(anyio.current_time())  # so that `_leave` doesn't wait for it
                if not isinstance(error, _NO_RESPONSE):
                    raise
                self._on_no_response("looking for the coordinator failed", error)
                return membership.wake_at
            self._on_events(membership.on_coordinator(lookup, response, anyio.current_time()))
            found = membership.coordinator
            if found:
                self._pool.learn({found.node: (found.host, found.port, None)})
        heartbeat = membership.next_heartbeat(anyio.current_time())
        coordinator = membership.coordinator  # may be given up during the request
        if heartbeat and coordinator:
            try:
                state = await self._ask(coordinator.node, heartbeat)
            except Exception as error:
                membership.on_no_response(anyio.current_time())
                if not isinstance(error, _NO_RESPONSE):
                    raise
                self._on_no_response("a heartbeat failed", error, coordinator.node)
                return membership.wake_at
            self._unreadable.on_useful()
            self._on_events(membership.on_response(heartbeat, state, anyio.current_time()))
            if self.has_left:
                self._wakeup.send()
        return membership.wake_at

    async def _learn_limit(self) -> None:
        book, now = self._book, anyio.current_time()
        is_needed = book.has_redelivered or len(book.unseen) or book.kept.held
        if is_needed and now >= self._limit_asked_at + ASK_EVERY_S:
            self._limit_asked_at = now
            await self._ask_limit()

    async def _ask_limit(self) -> None:
        try:
            limit = limit_in(await self._ask(None, limit_request(self._settings.group)))
        except KshareError as error:
            log.debug("the group's delivery count limit can't be read: %s", error)
            return
        self._is_limit_known = True
        self._book.learn_limit(limit)

    async def _refresh_metadata(self) -> float | None:
        request = self._cluster.request(anyio.current_time())
        if request is None:
            return self._cluster.wake_at
        try:
            response = await self._ask(None, request)
        except _NO_RESPONSE as error:
            self._on_no_response("asking for metadata failed", error)
            self._cluster.on_no_response()
            return self._cluster.wake_at
        events = self._cluster.on_metadata(request, response, anyio.current_time())
        self._pool.learn(self._cluster.nodes)
        for name, code in self._cluster.refused.items():
            self._log(logging.WARNING, f"waiting for topic {name}", error_name(code))
        for event in events:
            if isinstance(event, TopicDeleted):
                self._on_topic_deleted(event)
            elif isinstance(event, Rebootstrap):
                cause = "the cluster's addresses have changed: starting from the bootstrap servers"
                self._log(logging.WARNING, cause)
                self._pool.rebootstrap()
        self._assign_to_nodes()
        return self._cluster.wake_at

    # --- reactions

    def _on_events(self, events: Sequence[object]) -> None:
        is_assigned = any(isinstance(event, AssignmentChanged) for event in events)
        for event in events:
            match event:
                case Joined() if not is_assigned:
                    # As Java counts: a new group's first assignment is empty, until brokers have initialized its state.
                    self._reporter.assigned()
                case AssignmentChanged(partitions):
                    self._cluster.want(self.topics, partitions)
                    self._assign_to_nodes()
                    if self._report_assignment(partitions):
                        self._reporter.assigned()
                case MembershipLost(error):
                    # The assignment is void, but acquired records are not: sessions outlive the membership (measured).
                    self._log(logging.WARNING, "membership lost; rejoining", error)
                    self._assign_to_nodes()
                    self._report_assignment({})
                case GroupFull(error):
                    self._log(logging.WARNING, "group full, retrying", error)
                case Failed(error):
                    self._fail(self._explained(error))
                case _:
                    log.debug("%s", event)
        self._wakeup.send()

    def _assign_to_nodes(self) -> None:
        """Assign each partition to the task of its leader. Partitions without a known leader wait for metadata.

        What is assigned and no longer subscribed to is left out: the coordinator is a heartbeat behind.
        """
        wanted: dict[int, list[TopicIdPartition]] = {}
        for topic_id, numbers in self._membership.assignment.items():
            for number in numbers if self._cluster.name_of(topic_id) in self.topics else ():
                leader = self._cluster.leader_of(topic_id, number)
                if leader:
                    wanted.setdefault(leader[0], []).append((topic_id, number))
        self.brokers = len(wanted)
        for node in () if self._is_closing else wanted.keys() - self._nodes.keys():
            self._start(node)
        for number, session in self._nodes.items():
            session.brokers = max(1, self.brokers)
            session.want(wanted.get(number, []))
            session.lose_moved(partial(self._is_led_elsewhere, number))

    def _is_led_elsewhere(self, node: int, partition: TopicIdPartition) -> bool:
        leader = self._cluster.leader_of(*partition)
        return leader is not None and leader[0] != node

    def _on_topic_deleted(self, deleted: TopicDeleted) -> None:
        """The topic was deleted, or recreated with another id: records acquired from it can no longer be settled."""
        name = deleted.name or deleted.topic_id.hex()
        self._log(logging.WARNING, f"topic {name} was deleted: its held records are lost")
        for node in self._nodes.values():
            node.lose_topic(deleted.topic_id)
        self._book.holder.on_topic_gone(deleted.topic_id)

    def _start(self, node: int) -> None:
        session = NodeSession(
            node,
            ShareSession(self._settings.group, self._membership.member_id),
            FetchConnection(node, self._pool, self._reporter, self._cluster.name_of, self._clock),
            self._settings,
            self._book,
            self._cluster.name_of,
            self._on_moved,
        )
        self._nodes[node] = session
        self._ended[node] = anyio.Event()
        self._tasks.start_soon(self._run_node, node, session)

    async def _run_node(self, number: int, node: NodeSession) -> None:
        try:
            await node.run()
        except Exception as error:
            self._fail(error)
        finally:
            self._ended[number].set()

    async def _ask(self, node: int | None, request: Request[ResponseT]) -> ResponseT:
        """Send a request on the connection that everything but fetching shares."""
        started = self._clock()
        try:
            response = await self._pool.ask(node, request, timeout=self._settings.net.request_timeout)
        except KshareError as error:
            self._reporter.responded(request, node, self._clock() - started, error)
            raise
        self.heard_at = monotonic()
        self._reporter.responded(request, node, self._clock() - started, response)
        return response

    def _explained(self, error: BrokerError) -> BrokerError:
        """Add the permission that a heartbeat needs, and how to grant it, if that is missing."""
        needed = [Right("Read", "group", self._settings.group)]
        if len(self.topics) == 1:  # if there are several, the error doesn't say which
            needed.append(Right("Describe", "topic", self.topics[0]))
        right = missing_right(error.code, needed)
        if right is None:
            return error
        return refusal(error.code, f"share group '{self._settings.group}'", right, self._pool.settings)

    def _fail(self, error: Exception) -> None:
        """An error that retrying won't fix. It is raised to everyone who waits for records or confirmations."""
        if not isinstance(error, KshareError):
            log.error("an unexpected error in the background of the consumer", exc_info=error)
        self.failure = error
        self._on_failed()
        self._book.changed.send()

    def _report_assignment(self, partitions: Mapping[bytes, Iterable[int]]) -> bool:
        """Returns whether it differs from the one before."""
        now = frozenset((topic_id, number) for topic_id, numbers in partitions.items() for number in numbers)
        added, removed = len(now - self._reported), len(self._reported - now)
        self._reported = now
        if added or removed:
            names = {
                self.name_of(topic_id) or topic_id.hex(): tuple(sorted(numbers))
                for topic_id, numbers in partitions.items()
            }
            self._log(logging.INFO, "assigned", names)
            self._reporter.report(events.Assigned(names, added, removed))
        return bool(added or removed)

    def _on_moved(
        self,
        partitions: Sequence[TopicIdPartition],
        leaders: Sequence[Leader],
        endpoints: Sequence[NodeEndpoint],
    ) -> None:
        self._cluster.on_moved(partitions, leaders, endpoints)
        self._pool.learn(self._cluster.nodes)
        self._assign_to_nodes()
        self._wakeup.send()

    def _on_no_response(self, cause: str, error: KshareError, node: int | None = None) -> None:
        """A broken connection is retried at once. A silent broker has cost `request_timeout`: log a warning."""
        self._log(logging.WARNING if isinstance(error, RequestTimedOut) else logging.INFO, cause, error)
        broker = cause if node is None else f"node {node}"
        self._unreadable.note(error, broker, anyio.current_time())

    def _log(self, level: int, cause: str, detail: object = "") -> None:
        self._reporter.log.event(level, cause, detail)
