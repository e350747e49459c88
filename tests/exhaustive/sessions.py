"""Members of a share group with sessions and acknowledgements: their engine is real, and so is the brokers' arithmetic.

Each member has the code that a consumer has from its user's loop down to its requests: `Holdings`, `LeaseBook`,
`NodeSession`, `FetchConnection`, `ClusterView`, and all of `kshare/state` below them. Its user takes a batch, decides
on one record after another, and takes the next batch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from kshare.broker.shares.delivery import RecordState
from kshare.client.config import ConsumerConfig
from kshare.client.holdings import Holdings
from kshare.client.record import ShareBatch, ShareRecord, lease_of
from kshare.client.streams import Inbox, RecordStream
from kshare.engine.events import Acknowledged
from kshare.engine.fetch_connection import FetchConnection
from kshare.engine.node_session import NodeSession
from kshare.engine.reporter import Reporter
from kshare.errors import AcknowledgeError, ConnectionLost
from kshare.protocol.messages import MetadataResponse
from kshare.protocol.messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kshare.state.cluster import ClusterView
from kshare.state.lease import ACCEPT, Lease, TopicIdPartition
from kshare.state.lease_timers import LeaseTimers
from kshare.state.session import AckRange, ShareSession
from tests.exhaustive.explorer import Event, System
from tests.exhaustive.links import Link, Links
from tests.exhaustive.pictures import picture
from tests.exhaustive.share_cluster import NODES, PARTITION, TOPIC, ShareCluster, coarse
from tests.exhaustive.stepping import Gates, SteppedLoop, place_of

_MOMENT = "a moment passes"
_EXPIRY = "time passes until locks have expired"
_SHORT_S = 1.0
"""Timers up to this length are the client's own pauses. Longer ones are those of locks."""


@dataclass(frozen=True, kw_only=True)
class SessionSizes:
    members: int = 2
    records: int = 3
    faults: int = 2
    at_once: int = 2
    """How many records a member holds at once."""
    releases: int = 1
    """How many records users release instead of accepting them."""


class Member:
    def __init__(
        self,
        name: str,
        config: ConsumerConfig,
        loop: SteppedLoop,
        gates: Gates,
        note: Callable[[str], None],
    ) -> None:
        self.name = name
        self.accepted: set[int] = set()
        """What its user has accepted."""
        self.excused: set[int] = set()
        """Of these, what may come again: the user was told that the lock was lost, or that the acknowledgement was
        refused, or it was lost in time."""
        self._settings = config.member_settings()
        self._loop = loop
        self._gates = gates
        self._note = note
        self.links = Links(loop.time)
        timers = LeaseTimers(can_renew=True, max_lease_s=1000.0)
        self.holdings = _Holdings(
            self,
            max_records=config.max_records,
            lease_timers=timers,
            clock=loop.time,
            suspended=lambda: 0.0,
            reporter=Reporter(on_settled=self._on_settled, clock=loop.time),
        )
        self.book = self.holdings.book
        self.inbox = Inbox(lambda: None)
        self.cluster = ClusterView()
        self.cluster.want(["t"], {TOPIC: [0]})
        self.is_unsure = False
        """Whether it asks who leads the partition."""
        self.nodes: dict[int, NodeSession] = {}
        self.sessions: dict[int, ShareSession] = {}
        self.tasks: list[Any] = []

    def start(self, leader: int, epoch: int) -> None:
        self.learn(leader, epoch)
        self.tasks.append(self._loop.create_task(self._use()))

    async def _use(self) -> None:
        """What the user's code does: a record is accepted when it asks for the next one."""
        async for record in RecordStream(self, is_implicit=True):  # type: ignore[arg-type]
            self._on_seen(record)
            if await self._gates.wait(f"{self.name} {record.offset}") == "releases":
                with suppress(AcknowledgeError):
                    record.release()
            elif lease_of(record.batch).is_held(record.offset):
                self.accepted.add(record.offset)
                self.excused.discard(record.offset)

    # --- what `ShareConsumer` does

    async def open_batch(self) -> None:
        while not self.inbox.has_opened:
            self.inbox.give_back()
            self.book.check_leases()
            batch = self.holdings.next_batch()
            if batch is not None:
                self.inbox.put(batch)
            else:
                await self.holdings.wait_for_batch(self._request_more)

    def slice_size(self) -> int:
        self.book.check_leases()
        return 1

    def most_delivered(self) -> int:
        return self.holdings.look_again()

    def on_lock_lost(self, batch: ShareBatch, lost: list[tuple[int, int]]) -> None:
        self.book.on_lock_lost(lease_of(batch), lost)

    def _request_more(self) -> None:
        for node in self.nodes.values():
            node.flush()
        self.book.changed.send()

    def _on_settled(self, settled: Acknowledged) -> None:
        if settled.error is not None and not settled.is_open:
            for first, last, _ in settled.ranges():
                self.excused.update(range(first, last + 1))

    def _on_seen(self, record: ShareRecord) -> None:
        offset = record.offset
        if lease_of(record.batch).deadline <= self._loop.time():
            self._note(f"{self.name}'s user got record {offset} after its lock had expired")
        if offset in self.accepted - self.excused:
            self._note(f"{self.name}'s user got record {offset} again, after it had accepted it")

    # --- what `GroupMember` does

    def learn(self, leader: int, epoch: int) -> None:
        """Metadata says who leads the partition."""
        self.is_unsure = False
        request = self.cluster.request(max(self._loop.time(), self.cluster.wake_at or 0.0))
        assert request is not None, "there is something to ask"
        brokers = [MetadataResponseBroker(node, f"node-{node}", 9092) for node in NODES]
        row = MetadataResponsePartition(0, 0, leader, epoch)
        response = MetadataResponse(
            brokers=brokers, topics=[MetadataResponseTopic(0, "t", TOPIC, partitions=[row])]
        )
        self.cluster.on_metadata(request, response, self._loop.time())
        self._assign()

    def _assign(self) -> None:
        found = self.cluster.leader_of(*PARTITION)
        assert found is not None, "somebody leads it"
        if found[0] not in self.nodes:
            self._open(found[0])
        for number, node in self.nodes.items():
            node.want([PARTITION] if number == found[0] else [])
            node.lose_moved(lambda _, number=number: number != found[0])  # type: ignore[misc]

    def _open(self, number: int) -> None:
        self.sessions[number] = ShareSession("group", self.name)
        line = FetchConnection(
            number,
            self.links,  # type: ignore[arg-type]
            self.book.reporter,
            lambda _: "t",
            self._loop.time,
        )
        self.nodes[number] = NodeSession(
            number,
            self.sessions[number],
            line,
            self._settings,
            self.book,
            lambda _: "t",
            self._on_moved,
        )
        self.tasks.append(self._loop.create_task(self.nodes[number].run()))

    def _on_moved(self, partitions: Sequence[TopicIdPartition], leaders: Any, endpoints: Any) -> None:
        before = self.cluster.leader_of(*PARTITION)
        self.cluster.on_moved(partitions, leaders, endpoints)
        if self.cluster.leader_of(*PARTITION) != before:
            self.is_unsure = False
        elif partitions and not leaders:
            self.is_unsure = True
        self._assign()

    # --- what is known of it

    @property
    def leases(self) -> Iterator[tuple[int, Lease]]:
        for number, node in self.nodes.items():
            for acks in node.partition_acks.values():
                for lease in acks.leases:
                    yield number, lease

    def holds(self, offset: int) -> Iterator[int]:
        """The nodes from which it has a live lock of this record, as it believes."""
        now = self._loop.time()
        for number, lease in self.leases:
            if lease.first <= offset <= lease.last and lease.is_held(offset) and lease.deadline > now:
                yield number

    def link_to(self, node: int) -> Link | None:
        return next((link for link in self.links.all if link.node == node and link.is_open), None)


class _Holdings(Holdings):
    """Hears what was confirmed, and what was lost in time."""

    def __init__(self, member: Member, **options: Any) -> None:
        super().__init__(**options)
        self.confirmed: list[int] = []
        self._member = member

    def on_confirmed(self, partition: TopicIdPartition, ranges: Sequence[AckRange]) -> None:
        super().on_confirmed(partition, ranges)
        for first, last, types in ranges:
            for at in range(first, last + 1):
                if types[0 if len(types) == 1 else at - first] == ACCEPT:
                    self.confirmed.append(at)

    def on_lost(self, lease: Lease, reason: Any) -> None:
        super().on_lost(lease, reason)
        if reason == "expired":
            self._member.excused.update(range(lease.first, lease.last + 1))


class SessionSystem:
    """See `System`."""

    def __init__(self, sizes: SessionSizes) -> None:
        self.sizes = sizes
        self.faults_left = sizes.faults
        self.releases_left = sizes.releases
        self.found: list[str] = []
        self.loop = SteppedLoop()
        self.gates = Gates(self.loop)
        self.cluster = ShareCluster(sizes.records)
        options = {"group": "group", "topics": ["t"], "max_records": sizes.at_once}
        config = ConsumerConfig.make("x:1", options)
        self.members = [
            Member(name, config, self.loop, self.gates, self.found.append)
            for name in "ABCDEFG"[: sizes.members]
        ]
        for member in self.members:
            self.loop.call(partial(member.start, self.cluster.leader, self.cluster.leader_epoch))

    @property
    def _now_ms(self) -> int:
        return round(self.loop.time() * 1000)

    # --- events

    def events(self) -> Sequence[Event]:
        found = [Event(name) for name in self._free_events()]
        if not found and not self.is_done:
            return [Event(name) for name in self._later()]
        if self.faults_left:
            found += [Event(name, True) for name in self._faults()]
        return found

    def _free_events(self) -> Iterator[str]:
        for member in self.members:
            yield from self._events_of(member)
            for link in member.links.all:
                yield from self._events_on(member, link)
        timer = self.loop.next_timer
        if timer is not None and timer <= self.loop.time() + _SHORT_S:
            yield _MOMENT

    def _later(self) -> Iterator[str]:
        """What happens if nothing else can: a pause of a client ends, or a lock that nobody knows of any more."""
        timer, expiry = self.loop.next_timer, self.cluster.partition.next_expiry()
        if timer is not None and (expiry is None or timer * 1000 < expiry):
            yield _MOMENT
        elif expiry is not None:
            yield _EXPIRY

    def _events_of(self, member: Member) -> Iterator[str]:
        for gate in self.gates.closed:
            name, offset = gate.split()
            if name == member.name:
                yield f"{name}'s user accepts record {offset}"
                if self.releases_left:
                    yield f"{name}'s user releases record {offset}"
        leader = (self.cluster.leader, self.cluster.leader_epoch)
        if member.is_unsure and member.cluster.leader_of(*PARTITION) != leader:
            yield f"{member.name} hears from metadata who leads"

    def _events_on(self, member: Member, link: Link) -> Iterator[str]:
        if not link.is_open:
            yield f"node {link.node} notices that a connection of {member.name} is gone"
        elif link.response is not None:
            yield f"the slow response of node {link.node} reaches {member.name}"
        elif link.request is not None:
            yield f"node {link.node} responds to {member.name}"
        elif link.waiting is not None:
            session = self.cluster.sessions[link.node].find(("group", member.name))
            is_asked = session is None or PARTITION in session.partitions
            is_elsewhere = link.node != self.cluster.leader
            if session is None or (is_asked and (is_elsewhere or self.cluster.has_records())):
                yield f"node {link.node} responds to the waiting fetch of {member.name}"
            elif link.waiting[1] or not is_asked or self._has_unsent(member, link.node):
                yield f"the fetch of {member.name} has waited long enough at node {link.node}"

    def _has_unsent(self, member: Member, node: int) -> bool:
        return any(acks.has_decided for acks in member.nodes[node].partition_acks.values())

    def _faults(self) -> Iterator[str]:
        for member in self.members:
            for link in member.links.all:
                if not link.is_open:
                    continue
                where = f"of {member.name} to node {link.node}"
                yield f"the connection {where} is cut"
                yield f"the connection {where} is cut, and the node doesn't notice"
                if link.request is not None:
                    yield f"node {link.node} handles a request of {member.name}, and the response is slow"
                    yield f"node {link.node} handles a request of {member.name}, and the response is lost"
                if self.cluster.sessions[link.node].find(("group", member.name)) is not None:
                    yield f"node {link.node} drops the session of {member.name}"
        yield "the leader moves"
        if not self.cluster.is_coordinator_away and any(
            True for member in self.members for _ in member.leases
        ):
            yield "the share coordinator can't be reached for the next acknowledgements"
        renewal = min((member.book.wake_at for member in self.members), default=float("inf"))
        if self.loop.time() + _SHORT_S < renewal < float("inf"):
            yield "time passes until something has to be done about locks"
        if self.cluster.partition.next_expiry() is not None:
            yield _EXPIRY

    def do(self, name: str) -> None:
        is_fault = Event(name, True) in self.events()
        self.faults_left -= is_fault
        words = name.split()
        if "'s user " in name:
            self._decide(words)
        elif "metadata" in words:
            member = self._member(words[0])
            self.loop.call(partial(member.learn, self.cluster.leader, self.cluster.leader_epoch))
        elif name == _MOMENT:
            assert self.loop.next_timer is not None
            self._pass_time(self.loop.next_timer)
        elif name == "the leader moves":
            self.cluster.move_leader()
        elif "coordinator" in words:
            self.cluster.is_coordinator_away = True
        elif "locks" in words and "about" in words:
            self._pass_time(min(member.book.wake_at for member in self.members))
        elif "locks" in words:
            expiry = self.cluster.partition.next_expiry()
            assert expiry is not None
            if not is_fault:
                self._end_waits(expiry / 1000)
            self._pass_time(expiry / 1000)
            for member in self.members:
                self.loop.call(member.book.check_leases)
        else:
            self._on_link(name, words)
        self.loop.settle()
        for member in self.members:
            member.links.forget_ended()
            for task in member.tasks:
                if task.done():
                    task.result()
        if self.loop.problems:
            raise AssertionError(self.loop.problems[0])
        self._look()

    def _pass_time(self, until: float) -> None:
        self.loop.pass_time(until)
        self.cluster.expire(self._now_ms)

    def _decide(self, words: Sequence[str]) -> None:
        if words[2] == "releases":
            self.releases_left -= 1
        self.gates.open(f"{words[0][0]} {words[-1]}", words[2])

    def _member(self, name: str) -> Member:
        return next(member for member in self.members if member.name == name)

    def _on_link(self, name: str, words: Sequence[str]) -> None:
        member = next(member for member in self.members if {member.name, f"{member.name},"} & {*words})
        node = int(words[words.index("node") + 1].rstrip(","))
        is_gone = "notices" in words
        link = next(link for link in member.links.all if link.node == node and link.is_open is not is_gone)
        if is_gone:
            self._end_at_node(member, link)
        elif "drops" in words:
            self.cluster.end_session(node, member.name, self._now_ms)
        elif "cut" in name:
            self._cut(link)
            if name.endswith("cut"):
                self._end_at_node(member, link)
        elif "handles" in words:
            self._handle(member, link)
            if name.endswith("lost"):
                self._cut(link)
                self._end_at_node(member, link)
        elif "slow" in words:
            self.loop.call_soon(link.arrive)
        elif link.waiting is not None:
            self._end_waiting(member, link, is_over="enough" in words)
        else:
            self._handle(member, link)
            if link.response is not None:
                self.loop.call_soon(link.arrive)

    def _cut(self, link: Link) -> None:
        link.request = link.waiting = None
        self.loop.call(partial(link.end, ConnectionLost("cut")))

    def _end_at_node(self, member: Member, link: Link) -> None:
        link.is_noticed = True
        link.request = link.waiting = None
        self.cluster.end_connection(link.node, link.number, self._now_ms)

    def _end_waiting(self, member: Member, link: Link, *, is_over: bool) -> None:
        assert link.waiting is not None, "it waits"
        (request, errors), link.waiting = link.waiting, None
        if is_over and not errors:
            self.loop.pass_time(self.loop.time() + request.max_wait_ms / 1000)
        link.response = self.cluster.fetch(
            link.node, member.name, request, self._now_ms, errors, is_over=is_over
        )
        if link.response is None:
            link.waiting = (request, errors)
        else:
            self.loop.call_soon(link.arrive)

    def _end_waits(self, expiry: float) -> None:
        """No fetch waits until then: shortly before, all members ask again."""
        self.loop.pass_time(max(self.loop.time(), expiry - _SHORT_S * 2 * len(self.members)))
        for member in self.members:
            for link in member.links.all:
                if link.is_open and link.waiting is not None:
                    self._end_waiting(member, link, is_over=True)
        self.loop.settle()

    def _handle(self, member: Member, link: Link) -> None:
        request, link.request = link.request, None
        errors: dict[Any, int] = {}
        response = self.cluster.handle(link.node, member.name, link.number, request, self._now_ms, errors)
        if not link.is_open:
            return
        if response is None:
            link.waiting = (request, errors)
        else:
            link.response = response

    # --- promises

    def _look(self) -> None:
        cluster = self.cluster
        for member in self.members:
            for offset in member.holdings.confirmed:
                if cluster.state_of(offset)[0] is not RecordState.ACKNOWLEDGED:
                    self.found.append(
                        f"{member.name} was told that record {offset} is accepted, and it isn't"
                    )
            member.holdings.confirmed.clear()
        for offset in range(self.sizes.records):
            state, holder = cluster.state_of(offset)
            if state is RecordState.ACKNOWLEDGED and not any(
                offset in member.accepted for member in self.members
            ):
                self.found.append(f"record {offset} is accepted, and no user has finished it")
            if state is RecordState.ARCHIVED:
                self.found.append(f"record {offset} is archived")
            for member in self.members:
                for node in member.holds(offset):
                    if self._knows_all(member, node) and (state, holder) != (
                        RecordState.ACQUIRED,
                        member.name,
                    ):
                        self.found.append(f"{member.name} believes that it holds record {offset}")

    def _knows_all(self, member: Member, node: int) -> bool:
        """Whether nothing has happened to its session that it can't know of."""
        link = member.link_to(node)
        session = self.cluster.sessions[node].find(("group", member.name))
        return (
            node == self.cluster.leader
            and link is not None
            and session is not None
            and session.connection == link.number
            and link.response is None
            and not self.cluster.leader_epoch
        )

    def problems(self) -> Iterable[str]:
        return self.found

    @property
    def is_done(self) -> bool:
        """All records are settled, and all members know that of theirs."""
        return self.cluster.partition.window.start == self.sizes.records and not any(
            lease.undecided or lease.has_decided for member in self.members for _, lease in member.leases
        )

    def problems_when_done(self) -> Iterable[str]:
        for member in self.members:
            if member.book.counter.undecided:
                yield f"{member.name} counts records as held, and has none"

    # --- what is explored

    def fingerprint(self) -> Hashable:
        """Members are alike: it makes no difference which of them has which name."""
        pictures = [(member.name, self._picture(member)) for member in self.members]
        orders = [pictures, pictures[::-1]] if len(pictures) > 1 else [pictures]
        return min((self._fingerprint(order) for order in orders), key=hash)

    def _fingerprint(self, pictures: Sequence[tuple[str, Hashable]]) -> Hashable:
        return (
            self.cluster.fingerprint(
                {name: number for number, (name, _) in enumerate(pictures)}, self._now_ms
            ),
            tuple(picture for _, picture in pictures),
            self.faults_left,
            self.releases_left,
        )

    def _picture(self, member: Member) -> Hashable:
        now = self.loop.time()
        holdings, book = member.holdings, member.book
        return (
            frozenset(member.accepted),
            frozenset(member.excused),
            member.is_unsure and self.cluster.leader_epoch,
            member.cluster.leader_of(*PARTITION),
            tuple(gate.split()[1] for gate in self.gates.closed if gate.startswith(member.name)),
            tuple((place_of(task)) for task in member.tasks),
            tuple(self._picture_of_link(member, link) for link in member.links.all),
            tuple(
                (number, self._picture_of_session(member, number, node))
                for number, node in member.nodes.items()
            ),
            picture(holdings.memory),
            holdings.waiters,
            holdings.wants_more,
            holdings.capacity(1),
            holdings.has_waiting,
            coarse(book.wake_at - now),
            len(book.lease_timers),
            tuple(coarse(handle) for handle in self._timers(now)),
        )

    def _timers(self, now: float) -> Iterator[float]:
        timer = self.loop.next_timer
        if timer is not None:
            yield timer - now if timer - now > _SHORT_S else 0.0

    def _picture_of_link(self, member: Member, link: Link) -> Hashable:
        session = self.cluster.sessions[link.node].find(("group", member.name))
        epoch = session.epoch if session is not None else 0
        return (
            link.node,
            link.is_open,
            link.is_noticed,
            session is not None and session.connection == link.number,
            _of_request(link.request, epoch),
            None
            if link.waiting is None
            else (_of_request(link.waiting[0], 0)[1:], tuple(link.waiting[1].items())),
            picture(link.response, ("records", "node_endpoints")),
        )

    def _picture_of_session(self, member: Member, number: int, node: NodeSession) -> Hashable:
        now = self.loop.time()
        session = self.cluster.sessions[number].find(("group", member.name))
        ours = member.sessions[number]
        sent = ours.under_way
        timers = member.book.lease_timers
        return (
            None if session is None else (tuple(session.partitions), member.sessions[number].is_open),
            ours.is_open,
            frozenset(ours.wanted),
            ours.has_partition_changes,
            ours.has(PARTITION),
            None
            if sent is None
            else (picture(sent.acks), frozenset(sent.partitions), _of_request(sent.request, 0)[1:]),
            node.is_settled,
            tuple(
                (
                    acks.has_retries,
                    acks.is_under_way,
                    tuple(
                        (
                            lease.first,
                            lease.last,
                            bytes(lease.states),
                            lease.delivery_count,
                            coarse(lease.deadline - now),
                            timers.handed_out_at(lease) is None,
                        )
                        for lease in acks.leases
                    ),
                )
                for acks in node.partition_acks.values()
            ),
        )

    def maker(self) -> Callable[[], System] | None:
        return None

    def close(self) -> None:
        self.loop.end()


def _of_request(request: Any, epoch: int) -> tuple[Any, ...]:
    """Epochs ascend for ever: what counts is whether it is the one that the node expects."""
    if request is None:
        return (None, None)
    sent = request.share_session_epoch
    return (
        sent if sent <= 0 else ("next", sent - epoch),
        type(request).__name__,
        picture(request.topics),
        picture(getattr(request, "forgotten_topics_data", ())),
        getattr(request, "max_records", 0),
    )
