"""When a broker's task sends requests, and how much it asks for: back-off, long polls, byte limits, closing."""

from __future__ import annotations

import itertools
from typing import Any

import anyio
import pytest

from kshare import ShareConsumer
from kshare.client.record import lease_of
from kshare.engine.events import Assigned, Event
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
)
from kshare.state.lease import LOST
from kshare.state.request_planner import IDLE_WAIT_MS
from tests.fakes.fetching import DEADLINE_S, Rig, running
from tests.fakes.tiny_broker import ACCEPTED, ACQUIRED, AVAILABLE, TinyBroker
from tests.fakes.tiny_cluster import TinyCluster
from tests.helpers.consuming import until

pytestmark = pytest.mark.anyio


class Timed(TinyBroker):
    """Every empty fetch takes its full maximum wait, on a simulated clock."""

    def __init__(self, records: int) -> None:
        super().__init__(records)
        self.now = 0.0
        self.late_s = 0.0
        """How long the next response with records is delayed before it is read."""

    async def ask(self, request: Any) -> Any:
        response = await super().ask(request)
        if isinstance(response, ShareFetchResponse):
            if any(data.acquired_records for topic in response.responses for data in topic.partitions):
                self.now += self.late_s
                if self.late_s:
                    self.late_s = 0.0
                    self.states = [AVAILABLE if state == ACQUIRED else state for state in self.states]
            else:
                self.now += request.max_wait_ms / 1000
        return response

    def fetches(self) -> list[ShareFetchRequest]:
        return [request for request in self.requests if isinstance(request, ShareFetchRequest)]


def on_its_clock(rig: Rig, broker: Timed) -> Rig:
    rig.holdings.book.clock.now = lambda: broker.now
    return rig


@pytest.mark.lengthy
async def test_undecided_records_cause_hardly_more_fetches_than_idling() -> None:
    broker = Timed(1)
    async with running(broker) as rig:
        on_its_clock(rig, broker)
        batch = await rig.next_batch()
        rig.holdings.waiters = 1
        until_s = broker.now + 19.0  # before the lease is renewed
        before = len(broker.requests)
        while broker.now < until_s:
            rig.holdings.book.changed.send()
            await anyio.lowlevel.checkpoint()
        asked = len(broker.requests) - before
        rig.holdings.waiters = 0
        batch.accept()
    assert asked <= 1.7 * 19.0 * 1000 / IDLE_WAIT_MS
    waits = [fetch.max_wait_ms for fetch in broker.fetches()[1:]]
    assert waits[0] < 100, "a decision may come soon"
    assert max(waits) == IDLE_WAIT_MS


async def test_response_read_after_its_locks_expired_is_not_handed_out() -> None:
    """The event loop was blocked, or the process stopped. The broker counts from when it acquired the records."""
    broker = Timed(10)
    broker.late_s = 30.0
    async with running(broker) as rig:
        on_its_clock(rig, broker)
        batch = await rig.next_batch()
        assert batch.delivery_count == 2
        batch.accept()
        with rig.holdings.book.commits.confirming():
            rig.holdings.book.changed.send()
            while set(broker.states) != {ACCEPTED}:
                await anyio.lowlevel.checkpoint()


async def test_lock_counts_from_when_its_fetch_was_sent() -> None:
    broker = Timed(10)
    broker.late_s = 7.0
    async with running(broker) as rig:
        on_its_clock(rig, broker)
        batch = await rig.next_batch()
        assert lease_of(batch).deadline == pytest.approx(28.5)
        batch.release()


@pytest.mark.lengthy
async def test_refused_sessions_are_retried_with_growing_pauses() -> None:
    broker = TinyBroker(10)
    times: list[float] = []
    response = broker._response

    def refuse(request: Any) -> Any:
        times.append(anyio.current_time())
        if len(times) <= 5:
            return ShareFetchResponse(error_code=ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        return response(request)

    broker._response = refuse  # type: ignore[method-assign]
    async with running(broker) as rig:
        (await rig.next_batch()).accept()
    pauses = [after - before for before, after in itertools.pairwise(times[:6])]
    for pause, least in zip(pauses, (0.08, 0.16, 0.32, 0.64, 0.8), strict=True):
        assert pause >= least


@pytest.mark.lengthy
async def test_refused_session_does_not_close_the_connection() -> None:
    """No lock depends on the connection, and reconnecting would cost an overloaded broker more than a request."""
    cluster = TinyCluster("a")
    cluster.error_always[ShareFetchRequest] = ErrorCode.SHARE_SESSION_LIMIT_REACHED
    async with cluster.running(), ShareConsumer(cluster.bootstrap, group="g", topics="a") as source:

        async def accept() -> None:
            (await source.next_batch()).accept()

        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(accept)
                await until(lambda: len(cluster.asked(ShareFetchRequest)) == 1)
                talks = len(cluster.talks)
                await until(lambda: len(cluster.asked(ShareFetchRequest)) == 4)
                assert len(cluster.talks) == talks
                cluster.error_always.clear()
                cluster.topics["a"].append(b"x")


@pytest.mark.lengthy
async def test_while_paused_an_assignment_fetches_nothing() -> None:
    cluster, events = TinyCluster("a", "b"), list[Event]()
    cluster.topics["a"].append(b"a")
    cluster.topics["b"].append(b"b")
    options: dict[str, Any] = {"group": "g", "topics": "a", "observer": events.append}
    async with cluster.running(), ShareConsumer(cluster.bootstrap, **options) as source:
        source.pause(release=True)
        source.subscribe(["a", "b"])
        await until(
            lambda: any(isinstance(event, Assigned) and len(event.partitions) == 2 for event in events)
        )
        beats = len(cluster.asked(ShareGroupHeartbeatRequest))
        await until(lambda: len(cluster.asked(ShareGroupHeartbeatRequest)) == beats + 2)
        assert not cluster.asked(ShareFetchRequest)
        assert [topic.deliveries for topic in cluster.topics.values()] == [[0], [0]]


async def test_no_more_than_max_bytes_are_held() -> None:
    cluster = TinyCluster("a")
    topic = cluster.topics["a"]
    topic.append(*[b"x" * 10_000] * 300)
    options: dict[str, Any] = {"group": "g", "topics": "a", "max_bytes": 205_000}
    async with cluster.running(), ShareConsumer(cluster.bootstrap, **options) as source:
        with anyio.fail_after(DEADLINE_S):
            async for record in source:
                assert topic.states.count(ACQUIRED) <= 21, "one more is accepted and not yet confirmed"
                if record.offset == 299:
                    record.accept()
                    break
    assert topic.deliveries == [1] * 300
    asked = [fetch.max_bytes for fetch in cluster.asked(ShareFetchRequest)]
    assert max(asked) <= 205_000
    assert min(asked) < 150_000, "bytes that are held reduce the limit"


async def test_batch_larger_than_max_bytes_is_fetched_alone() -> None:
    cluster = TinyCluster("a")
    topic = cluster.topics["a"]
    topic.append(*[b"x" * 100_000] * 5)
    async with (
        cluster.running(),
        ShareConsumer(cluster.bootstrap, group="g", topics="a", max_bytes=1) as source,
    ):
        with anyio.fail_after(DEADLINE_S):
            async for record in source:
                assert topic.states.count(ACQUIRED) <= 2
                if record.offset == 4:
                    record.accept()
                    break
    assert topic.deliveries == [1] * 5


async def test_closing_settles_records_beside_expired_ones() -> None:
    """One invalid acknowledgement in the closing request used to fail all of them."""
    broker = TinyBroker(100)
    async with running(broker) as rig:
        batch = await rig.next_batch()
        for record in batch:
            if record.offset == 11:
                broker.states[5] = AVAILABLE  # released by the broker, without the consumer's knowledge
            if record.offset < 12:
                record.accept()
        rig.node.stop()
    assert [offset for offset, state in enumerate(broker.states) if state == ACCEPTED] == [
        offset for offset in range(12) if offset != 5
    ]
    assert lease_of(batch).count(LOST) == len(lease_of(batch).states) - 11
    last = broker.requests[-1]
    assert isinstance(last, ShareAcknowledgeRequest)
    assert last.share_session_epoch == -1
    assert not last.topics


async def test_closing_does_not_acknowledge_expired_records() -> None:
    broker = Timed(100)
    async with running(broker) as rig:
        on_its_clock(rig, broker)
        batch = await rig.next_batch()
        batch.accept()
        rig.node.stop()
        broker.now += 30.0
    acknowledged = [
        request for request in broker.requests if any(topic.partitions for topic in request.topics)
    ][1:]
    assert not acknowledged
    assert lease_of(batch).count(LOST) == len(lease_of(batch).states)


@pytest.mark.lengthy
async def test_closing_ends_the_session_while_acknowledgements_are_refused() -> None:
    broker = TinyBroker(10)
    rig = Rig(broker, 100)
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(rig.node.run)
            (await rig.next_batch()).accept()
            rig.node.stop()
        broker._acknowledge = lambda batches: ErrorCode.NOT_COORDINATOR if batches else 0  # type: ignore
        with anyio.move_on_after(1.0) as scope:
            await rig.node.close()
    assert not scope.cancelled_caught
    assert broker.requests[-1].share_session_epoch == -1
    assert len(broker.requests) < 12, "the pauses between requests grow"
