"""A whole consumer over sockets: changing subscriptions, moving leaders, rebootstrapping, events, errors."""

from __future__ import annotations

import anyio
import pytest

from kshare import (
    AcknowledgeError,
    AuthenticationFailed,
    BrokerError,
    ConfigError,
    DeserializationFailed,
    KshareError,
)
from kshare.client.record import ShareRecord
from kshare.engine.events import (
    Acknowledged,
    Acquired,
    Assigned,
    Event,
    Fetched,
    Finished,
    LeaseLost,
    LeaseRenewed,
    Poisoned,
    Responded,
    SessionEnded,
    Skipped,
)
from kshare.net.pool import Pool
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import MetadataRequest, ShareFetchRequest, ShareGroupHeartbeatRequest
from tests.fakes.tiny_cluster import ACCEPTED, ACQUIRED, ARCHIVED, AVAILABLE, TinyCluster
from tests.helpers.consuming import DEADLINE_S, consumer, next_of, until

pytestmark = pytest.mark.anyio


@pytest.mark.lengthy
async def test_added_topic_is_consumed_and_removed_topic_is_not() -> None:
    async with TinyCluster("a", "b").running() as cluster, consumer(cluster, "a") as source:
        cluster.topics["a"].append(b"a0")
        (await next_of(source)).accept()
        source.subscribe(["b"])
        assert source.topics == ("b",)
        cluster.topics["b"].append(b"b0")
        record = await next_of(source)
        assert (record.topic, record.value) == ("b", b"b0")
        record.accept()
        await source.commit()
        assert cluster.subscribed == ["b"]
        await until(lambda: any(fetch.forgotten_topics_data for fetch in cluster.asked(ShareFetchRequest)))
        cluster.topics["a"].append(b"a1")
        cluster.topics["b"].append(b"b1")
        record = await next_of(source)
        assert record.value == b"b1"
        assert cluster.topics["a"].states == [ACCEPTED, AVAILABLE]


@pytest.mark.lengthy
async def test_records_in_hand_of_a_removed_topic_can_be_settled() -> None:
    async with (
        TinyCluster("a", "b").running() as cluster,
        consumer(cluster, "a", acknowledgement="explicit") as source,
    ):
        cluster.topics["a"].append(b"a0")
        record = await next_of(source)
        source.subscribe("b")
        await until(lambda: cluster.subscribed == ["b"])
        record.accept()
        assert await source.commit() == {("a", 0): None}
        assert cluster.topics["a"].states == [ACCEPTED]


@pytest.mark.lengthy
async def test_waiting_records_of_a_removed_topic_are_released() -> None:
    async with (
        TinyCluster("a", "b").running() as cluster,
        consumer(cluster, "a", acknowledgement="explicit") as source,
    ):
        cluster.topics["a"].append(b"a0")
        in_hand = await next_of(source)
        cluster.topics["a"].append(b"a1")
        await until(lambda: cluster.topics["a"].states == [ACQUIRED, ACQUIRED])
        source.subscribe("b")
        await until(lambda: cluster.topics["a"].states == [ACQUIRED, AVAILABLE])
        cluster.topics["b"].append(b"b0")
        assert (await next_of(source)).value == b"b0"
        assert cluster.topics["a"].deliveries == [1, 1]
        in_hand.accept()


async def test_subscriptions_are_validated() -> None:
    async with TinyCluster("a").running() as cluster, consumer(cluster, "a") as source:
        with pytest.raises(ConfigError, match="topics must be a list of topic names"):
            source.subscribe([7])  # type: ignore[list-item]
        with pytest.raises(ConfigError, match="at least one topic"):
            source.subscribe([])
        assert source.topics == ("a",)
    with pytest.raises(KshareError, match="isn't open"):
        consumer(cluster, "a").subscribe(["a"])


@pytest.mark.lengthy
async def test_rebootstrap_uses_the_bootstrap_servers_again() -> None:
    async with TinyCluster("a", "b").running() as cluster, consumer(cluster, "a") as source:
        cluster.topics["a"].append(b"a0")
        (await next_of(source)).accept()
        cluster.error_next[MetadataRequest] = ErrorCode.REBOOTSTRAP_REQUIRED
        source.subscribe(["a", "b"])
        await until(lambda: not cluster.error_next)
        cluster.topics["b"].append(b"b0")
        assert (await next_of(source)).value == b"b0"


async def test_new_leader_is_found_through_the_old_ones_response() -> None:
    """Metadata doesn't list the new leader's node."""
    cluster = TinyCluster("a", nodes=2)
    cluster.hidden = {2}
    async with cluster.running(), consumer(cluster, "a") as source:
        cluster.topics["a"].append(b"a0")
        assert (await next_of(source)).value == b"a0"
        asked = len(cluster.asked(MetadataRequest))
        cluster.topics["a"].move(2)
        cluster.topics["a"].append(b"a1")
        seen = {(await next_of(source)).value, (await next_of(source)).value}
        assert seen == {b"a0", b"a1"}
        assert cluster.asked(ShareFetchRequest, node=2)
        assert len(cluster.asked(MetadataRequest)) == asked


@pytest.mark.lengthy
async def test_rule_4_leases_of_a_former_leader_are_lost_and_its_session_forgets_the_partition() -> None:
    events: list[Event] = []
    cluster = TinyCluster("a", "b", nodes=2)
    async with (
        cluster.running(),
        consumer(cluster, "a", "b", acknowledgement="explicit", observer=events.append) as source,
    ):
        cluster.topics["a"].append(b"a0")
        record = await next_of(source)
        cluster.topics["a"].move(2)
        again = await next_of(source)
        assert (again.value, again.delivery_count) == (b"a0", 2)
        with pytest.raises(AcknowledgeError, match="can no longer be acknowledged"):
            record.accept()
        assert [event for event in events if isinstance(event, LeaseLost)] == [LeaseLost("a", 0, 1, "moved")]
        again.accept()
        assert await source.commit() == {("a", 0): None}
        topic_id = cluster.topics["a"].topic_id
        await until(
            lambda: any(
                topic_id in {topic.topic_id for topic in request.forgotten_topics_data}
                for request in cluster.asked(ShareFetchRequest, node=1)
            )
        )


async def test_records_accepted_when_the_leader_moved_are_not_handed_out_again() -> None:
    events: list[Event] = []
    cluster = TinyCluster("a", nodes=2)
    async with (
        cluster.running(),
        consumer(cluster, "a", acknowledgement="explicit", observer=events.append) as source,
    ):
        cluster.topics["a"].append(b"a0")
        record = await next_of(source)
        cluster.topics["a"].move(2)
        record.accept()
        cluster.topics["a"].append(b"a1")
        assert (await next_of(source)).value == b"a1"
        await until(lambda: cluster.topics["a"].states[0] == ACCEPTED)
        assert Skipped("a", 0, 1) in events


@pytest.mark.lengthy
async def test_events_of_a_consumer() -> None:
    events: list[Event] = []
    cluster = TinyCluster("a")
    async with cluster.running():
        async with consumer(cluster, "a", observer=events.append) as source:
            cluster.topics["a"].append(*(b"%d" % n for n in range(5)))
            async for record in source:
                if record.offset == 4:
                    record.accept()
                    break
            await source.commit()
            assert Acquired("a", 0, 5, 1) in events
            assert [(event.node, event.records) for event in events if isinstance(event, Fetched)] == [(1, 5)]
            assert sum(event.counts()["accept"] for event in events if isinstance(event, Acknowledged)) == 5
            assert [(event.topic, event.records) for event in events if isinstance(event, Finished)] == [
                ("a", 5)
            ]
            assert Assigned({"a": (0,)}, 1, 0) in events
            apis = {event.api for event in events if isinstance(event, Responded)}
            assert apis >= {"FindCoordinator", "ShareGroupHeartbeat", "Metadata", "ShareFetch"}
            assert {event.error for event in events if isinstance(event, Responded)} == {None}
        assert events[-1] == Assigned({}, 0, 1)
        assert not [event for event in events if isinstance(event, SessionEnded | LeaseLost)]


@pytest.mark.lengthy
@pytest.mark.parametrize(("reason", "patience"), [("ConnectionLost", 20.0), ("RequestTimedOut", 3.0)])
async def test_end_of_a_session_is_reported_once(reason: str, patience: float) -> None:
    events: list[Event] = []
    cluster = TinyCluster("a")
    async with (
        cluster.running(),
        consumer(cluster, "a", request_timeout=patience, observer=events.append) as source,
    ):
        cluster.topics["a"].append(b"a0")
        (await next_of(source)).accept()
        await source.commit()
        if reason == "ConnectionLost":
            await cluster.hang_up()
        else:
            cluster.is_silent = True
        await until(lambda: any(isinstance(event, SessionEnded) for event in events))
        cluster.is_silent = False
        cluster.topics["a"].append(b"a1")
        assert (await next_of(source)).value == b"a1"
        assert [event for event in events if isinstance(event, SessionEnded)] == [SessionEnded(1, reason)]


async def test_lost_session_is_reported_with_its_lost_leases() -> None:
    events: list[Event] = []
    cluster = TinyCluster("a")
    async with (
        cluster.running(),
        consumer(cluster, "a", acknowledgement="explicit", observer=events.append) as source,
    ):
        cluster.topics["a"].append(b"a0", b"a1")
        await next_of(source)
        cluster.error_next[ShareFetchRequest] = ErrorCode.SHARE_SESSION_NOT_FOUND
        again = await next_of(source)
        while again.delivery_count == 1:
            again = await next_of(source)
        assert SessionEnded(1, "SHARE_SESSION_NOT_FOUND") in events
        assert LeaseLost("a", 0, 2, "session") in events


@pytest.mark.lengthy
async def test_poison_is_settled_by_policy_in_batches_too() -> None:
    events: list[Event] = []

    def read(data: bytes) -> str:
        if data == b"1":
            raise ValueError(data)
        return data.decode()

    options = {"value_deserializer": read, "on_poison": "reject", "observer": events.append}
    async with TinyCluster("a").running() as cluster, consumer(cluster, "a", **options) as source:
        cluster.topics["a"].append(b"0", b"1", b"2")
        values: list[object] = []
        async for batch in source.batches():
            values += [record.value for record in batch]
            if len(values) == 2:
                batch.accept()
                break
        assert values == ["0", "2"]
        await source.commit()
        assert cluster.topics["a"].states == [ACCEPTED, ARCHIVED, ACCEPTED]
        assert Poisoned("a", 0, 1, "value") in events


@pytest.mark.lengthy
async def test_raised_poison_ends_the_loop_and_the_next_loop_continues_after_it() -> None:
    options = {"value_deserializer": int}
    async with TinyCluster("a").running() as cluster, consumer(cluster, "a", **options) as source:
        cluster.topics["a"].append(b"0", b"x", b"2")
        seen: list[object] = []
        source_of_trouble: ShareRecord | None = None
        try:
            async for record in source:
                seen += [record.value]
        except DeserializationFailed as failure:
            source_of_trouble = failure.record
        assert source_of_trouble is not None
        assert source_of_trouble.value == b"x"
        source_of_trouble.reject()
        async for record in source:
            seen.append(record.value)
            record.accept()
            break
        assert seen == [0, 2]
        await source.commit()
        assert cluster.topics["a"].states == [ACCEPTED, ARCHIVED, ACCEPTED]


@pytest.mark.lengthy
async def test_permanent_errors_are_raised_where_records_are_awaited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For example after a changed password, when reconnecting is refused."""

    async def refuse(self: Pool, node: int | None, request: object, **options: object) -> None:
        raise AuthenticationFailed("the password isn't the right one any more")

    async with TinyCluster("a").running() as cluster, consumer(cluster, "a") as source:
        cluster.topics["a"].append(b"a0")
        (await next_of(source)).accept()
        monkeypatch.setattr(Pool, "ask", refuse)
        for _ in range(2):
            with pytest.raises(AuthenticationFailed, match="the password isn't the right one"):
                await next_of(source)


async def test_heartbeat_errors_are_raised_where_records_are_awaited() -> None:
    async with TinyCluster("a").running() as cluster, consumer(cluster, "a") as source:
        cluster.error_next[ShareGroupHeartbeatRequest] = ErrorCode.GROUP_AUTHORIZATION_FAILED
        with pytest.raises(BrokerError, match="share group 'g': GROUP_AUTHORIZATION_FAILED"):
            await next_of(source)


@pytest.mark.lengthy
async def test_renewed_and_lost_leases_are_reported() -> None:
    events: list[Event] = []
    for renews in (True, False):
        cluster = TinyCluster("a")
        cluster.lock_ms = 1000
        async with (
            cluster.running(),
            consumer(
                cluster, "a", acknowledgement="explicit", renew_leases=renews, observer=events.append
            ) as source,
        ):
            cluster.topics["a"].append(b"a0", b"a1")
            record = await next_of(source)
            if renews:
                await until(lambda: LeaseRenewed("a", 0, 2) in events)
                assert not [event for event in events if isinstance(event, LeaseLost)]
                record.accept()
                assert await source.commit() == {("a", 0): None}
            else:
                await until(lambda: LeaseLost("a", 0, 2, "expired") in events)
                with pytest.raises(AcknowledgeError):
                    record.accept()


@pytest.mark.lengthy
async def test_events_are_per_request_and_lease_not_per_record() -> None:
    events: list[Event] = []
    async with (
        TinyCluster("a").running() as cluster,
        consumer(cluster, "a", observer=events.append) as source,
    ):
        cluster.topics["a"].append(*(b"%d" % n for n in range(5000)))
        seen = 0
        with anyio.fail_after(DEADLINE_S):
            async for record in source:
                seen += 1
                if seen == 5000:
                    record.accept()
                    break
        await source.commit()
        requests = len([event for event in events if isinstance(event, Responded)])
        leases = len([event for event in events if isinstance(event, Acquired)])
        assert leases < 500
        assert len(events) < 4 * (requests + leases)
