"""A checkpoint that was lost, or restored from an older copy: refused, since the sink would skip what was accepted."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from kshare.admin.committed_texts import CommittedText, committed_texts
from kshare.admin.groups import list_groups
from kshare.admin.results import TopicPartition
from kshare.admin.routing import Router
from kshare.engine.reached_cluster import reached
from kshare.errors import KshareError
from kshare.monitor.collect import Collector
from kshare.net.settings import NetSettings
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.message import Request
from kshare.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kshare.spark.driver import mark_keeper, other_queries, range_member
from kshare.spark.driver.mark_keeper import LostCheckpoint
from kshare.spark.driver.query_mark import QueryMark, member_of
from kshare.testing import Broker
from tests.spark.driven import Crash, DrivenQuery, OlderDrivenQuery, Stop
from tests.spark.queries import eventually

pytestmark = pytest.mark.lengthy


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    quick = {"group.share.session.timeout.ms": "3000", "group.share.heartbeat.interval.ms": "500"}
    with Broker(settings=quick) as broker:
        yield broker


@pytest.fixture(params=["sink", "checkpoint", "journal"])
def mode(request: pytest.FixtureRequest) -> str:
    """The option `settle`."""
    return str(request.param)


@pytest.fixture
def query(broker: Broker, mode: str) -> DrivenQuery:
    """It has emitted 300 records in several micro-batches, and has ended normally."""
    query = DrivenQuery(broker)
    for _ in range(6):
        query.produce(50)
    query.run(maxRecordsPerTrigger="100", settle=mode)
    query.expect(300)
    return query


def lose_checkpoint(query: DrivenQuery) -> None:
    """The sink is still there, with the numbers of the micro-batches that it knows."""
    query.offset_log.clear()
    query.commit_log.clear()


def test_a_lost_checkpoint_is_refused(query: DrivenQuery, mode: str) -> None:
    lose_checkpoint(query)
    query.produce(200)
    for _ in range(2):
        with pytest.raises(
            LostCheckpoint, match=r"isn't running .* a new checkpointLocation and a new output path"
        ):
            query.run(settle=mode)
    assert query.lag() == 200
    query.sink.clear()
    query.run(settle=mode, failOnLostCheckpoint="false")
    assert sorted(query.written) == [(0, at) for at in range(300, 500)]
    query.produce(10)
    query.run(settle=mode)
    assert len(query.written) == 210


def test_an_older_copy_is_refused(query: DrivenQuery, mode: str) -> None:
    copied = 2
    del query.offset_log[copied:]
    query.commit_log = set(range(copied))
    query.produce(300)
    for _ in range(2):
        with pytest.raises(
            KshareError, match=r"older than the .*a new checkpointLocation and a new output path"
        ):
            query.run(settle=mode)
    assert query.lag() == 300


@pytest.mark.parametrize("step", ["read", "written", "committed"])
def test_a_copy_from_just_before_a_crash_is_refused(query: DrivenQuery, mode: str, step: str) -> None:
    """Whatever the sink has, it is newer than the copy, which was made a micro-batch earlier."""
    for _ in range(3):
        query.produce(50)
    batch = len(query.offset_log) + 1

    def crash(at: str, number: int) -> None:
        if (at, number) == (step, batch):
            raise Crash

    query.at = crash
    with pytest.raises(Crash):
        query.run(until=lambda: False, maxRecordsPerTrigger="50", settle=mode)
    query.at = lambda step, batch: None
    newest, commits = list(query.offset_log), set(query.commit_log)
    del query.offset_log[batch:]
    query.commit_log = set(range(batch))
    for _ in range(2):
        with pytest.raises(KshareError, match="older than the"):
            query.run(settle=mode)
    query.offset_log, query.commit_log = newest, commits
    query.run(settle=mode)
    query.expect(450)


@pytest.mark.parametrize("step", ["planned", "logged"])
def test_a_copy_from_before_a_batch_that_was_not_read_is_taken(
    query: DrivenQuery, mode: str, step: str
) -> None:
    """The sink knows nothing of that one."""
    query.produce(50)
    batch = len(query.offset_log)

    def crash(at: str, number: int) -> None:
        if at == step:
            raise Crash

    query.at = crash
    with pytest.raises(Crash):
        query.run(settle=mode)
    query.at = lambda step, batch: None
    del query.offset_log[batch:]
    query.run(settle=mode)
    query.expect(350)


@pytest.mark.parametrize("step", ["read", "committed"])
def test_a_checkpoint_that_is_lost_when_the_driver_is_killed_is_refused(
    broker: Broker, mode: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For as long as its session lasts, the group still lists the old query's member."""
    monkeypatch.setattr(other_queries, "SIGN_OF_LIFE_S", 2.0)
    query = DrivenQuery(broker)
    broker.set_group_config(query.group, {"share.session.timeout.ms": "45000"})
    query.produce(50)

    def crash(at: str, number: int) -> None:
        if at == step:
            raise Crash

    query.at = crash
    with pytest.raises(Crash):
        query.run(until=lambda: False, settle=mode)
    query.at = lambda step, batch: None
    lose_checkpoint(query)
    assert query.members() == 1
    query.produce(50)
    with pytest.raises(LostCheckpoint, match="isn't running"):
        query.run(settle=mode)
    assert query.members() == 1


def test_an_older_copy_is_taken_on_request(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is lost then, whatever the sink has skipped before, and the next start isn't refused."""
    query = DrivenQuery(broker)
    for _ in range(6):
        query.produce(50)
    query.run(maxRecordsPerTrigger="100")
    copied = 1
    for batch in range(copied, len(query.offset_log)):
        del query.sink[batch]  # a new output path
    del query.offset_log[copied:]
    query.commit_log = set(range(copied))
    query.produce(20)
    with caplog.at_level(logging.WARNING):
        query.run(failOnLostCheckpoint="false")
    assert "because failOnLostCheckpoint is false" in caplog.text
    assert set(query.written) >= {(0, at) for at in range(300, 320)}
    query.produce(20)
    query.run()
    assert set(query.written) >= {(0, at) for at in range(300, 340)}


def test_another_query_beside_one_that_runs(broker: Broker) -> None:
    """Several queries of a group share its records. The beats of the first one's mark show that it runs."""
    first, second = DrivenQuery(broker), DrivenQuery(broker)
    second.topic, second.group = first.topic, first.group
    first.produce(50)

    def join(step: str, batch: int) -> None:
        if (step, batch) == ("committed", 1):
            eventually(lambda: mark_of(first) > 0, "the first query has stored its mark")
            first.produce(50, 1)
            second.run(until=lambda: bool(second.written))
            raise Stop

    first.run()
    first.at = join
    first.produce(50)
    first.run(until=lambda: False)
    assert len(first.written) + len(second.written) == 150


def test_a_temporary_checkpoint_is_no_lost_one(
    query: DrivenQuery, mode: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Queries without a checkpointLocation start over whenever they are started. They leave no mark."""
    marked = mark_of(query)
    monkeypatch.setattr(mark_keeper, "has_temporary_checkpoint", lambda: True)
    for _ in range(2):
        lose_checkpoint(query)
        query.sink.clear()
        query.produce(30)
        caplog.clear()
        query.run(settle=mode)
        assert len(query.written) == 30
        told = [record for record in caplog.records if "no checkpointLocation" in record.getMessage()]
        assert len(told) == 1
    assert mark_of(query) == marked


def test_what_operators_see_of_a_mark(query: DrivenQuery, mode: str) -> None:
    """Other tools show a consumer group whose offset is that of the query, and kshare's monitor only share groups."""
    for _ in range(3):
        assert {where: text.offset for where, text in committed(query).items()} == {(query.topic, 0): 300}
        query.run(settle=mode)

    async def ask() -> list[str]:
        async with reached(NetSettings.parse(query.broker.bootstrap)) as cluster:
            snapshot = await Collector(Router(cluster.pool, 30)).read()
            return [group.group for group in snapshot.groups if group.group.startswith(query.group)]

    assert anyio.run(ask) == [query.group]


@pytest.mark.parametrize("is_running", [False, True])
def test_the_offset_of_a_mark_is_none_of_an_older_topic(
    broker: Broker, is_running: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic is deleted, and created again with fewer records."""
    monkeypatch.setattr(range_member, "_REFRESH_S", 0.2)
    query = DrivenQuery(broker)
    query.produce(50)

    def create_again() -> None:
        broker.delete_topic(query.topic)
        broker.create_topic(query.topic, 2)
        query.produce(20)

    def meanwhile(step: str, batch: int) -> None:
        if (step, batch) == ("committed", 0):
            create_again()

    if is_running:
        query.at = meanwhile
    else:
        query.run()
        create_again()
    query.run(until=lambda: len(query.written) == 70, failOnDataLoss="false")
    assert {where: text.offset for where, text in committed(query).items()} == {(query.topic, 0): 20}


def test_other_topics_of_the_group(broker: Broker) -> None:
    first, second = DrivenQuery(broker), DrivenQuery(broker)
    first.produce(10)
    first.run()
    second.group = first.group
    second.produce(10)
    second.run()
    second.expect(10)


@pytest.mark.parametrize("is_told", [True, False])
def test_older_sparks(broker: Broker, is_told: bool) -> None:
    """They pass no offset to a query that goes on, which isn't taken for a new one."""
    query = OlderDrivenQuery(broker)
    query.is_told_the_last_offset = is_told
    for count in (10, 20):
        query.produce(10)
        query.run(until=lambda count=count: len(query.written) == count)  # type: ignore[misc]
    query.expect(20)
    lose_checkpoint(query)
    query.produce(10)
    for _ in range(2):
        with pytest.raises(LostCheckpoint, match="begins with an empty checkpoint"):
            query.run(until=lambda: False)
    query.expect(20)


def refuse_to_read(response: OffsetFetchResponse) -> None:
    for group in response.groups:
        group.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED


def refuse_to_write(response: OffsetCommitResponse) -> None:
    for topic in response.topics:
        for row in topic.partitions:
            row.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("request_type", "refuse", "right"),
    [(OffsetFetchRequest, refuse_to_read, "Describe"), (OffsetCommitRequest, refuse_to_write, "Read")],
)
def test_without_the_right_to_keep_a_mark(
    broker: Broker,
    request_type: type[Request[Any]],
    refuse: Any,
    right: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The query runs all the same, and says once what it doesn't recognize."""
    refusing = broker.faults.add(request_type, times=None, change=refuse)
    query = DrivenQuery(broker)
    query.produce(10)
    query.run()
    refusing.stop()
    query.expect(10)
    told = [
        record.getMessage() for record in caplog.records if "the mark of this query" in record.getMessage()
    ]
    assert len(told) == 1
    assert f"lacks {right} on group {query.group}.kshare-spark." in told[0]
    query.produce(10)
    query.run()
    query.expect(20)
    assert mark_of(query) == 2


def mark_of(query: DrivenQuery) -> int:
    """The newest micro-batch that a mark of the group calls begun."""
    marks = [QueryMark.from_text(text.text) for text in committed(query).values()]
    return max((mark.begun for mark in marks if mark is not None), default=0)


def committed(query: DrivenQuery) -> dict[TopicPartition, CommittedText]:
    """What consumer groups with marks of the share group's queries have."""

    async def ask() -> dict[TopicPartition, CommittedText]:
        async with reached(NetSettings.parse(query.broker.bootstrap)) as cluster:
            router = Router(cluster.pool, 30)
            groups = [
                listed.group
                for listed in await list_groups(router, (), ())
                if member_of(listed.group, query.group)
            ]
            texts = [await committed_texts(router, group) for group in groups]
            return {where: text for some in texts for where, text in some.items()}

    return anyio.run(ask)
