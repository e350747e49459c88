"""The group's offsets are set anew while the query is stopped: what the group delivers then is emitted again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from kshare import AdminClient
from kshare.admin.offsets import ResetPoint
from kshare.spark.driver import drain
from kshare.testing import Broker
from tests.spark.driven import Crash, DrivenQuery
from tests.spark.queries import eventually
from tests.spark.shared_topic import Where

pytestmark = pytest.mark.lengthy

HALF = 500
"""Records in each of the two partitions."""


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
    """It has emitted everything in several micro-batches, and has ended normally."""
    query = DrivenQuery(broker)
    for partition in (0, 1):
        for _ in range(HALF // 50):
            query.produce(50, partition)
    run(query, mode)
    query.expect(HALF, HALF)
    return query


def run(query: DrivenQuery, mode: str) -> None:
    query.run(maxRecordsPerTrigger="300", settle=mode)


def reset(query: DrivenQuery, to: ResetPoint, *partitions: int) -> None:
    async def ask() -> None:
        async with AdminClient(query.broker.bootstrap) as admin:
            await admin.reset_share_group_offsets(query.group, to, topics={query.topic: partitions or None})

    anyio.run(ask)


def emitted_again(query: DrivenQuery) -> list[Where]:
    """What is in the sink beyond the first copies."""
    again = list(query.written)
    for number in (0, 1):
        for at in range(HALF):
            again.remove((number, at))
    return sorted(again)


def test_after_a_reset_to_the_earliest_offset(query: DrivenQuery, mode: str) -> None:
    reset(query, "earliest")
    run(query, mode)
    assert emitted_again(query) == [(number, at) for number in (0, 1) for at in range(HALF)]
    assert query.lag() == 0


def test_after_a_reset_to_an_offset(query: DrivenQuery, mode: str) -> None:
    """Into the last micro-batch, and out of the middle of one."""
    reset(query, HALF - 33)
    run(query, mode)
    assert emitted_again(query) == [(number, at) for number in (0, 1) for at in range(HALF - 33, HALF)]


def test_after_a_reset_of_one_partition(query: DrivenQuery, mode: str) -> None:
    query.produce(10)
    reset(query, "earliest", 1)
    run(query, mode)
    assert emitted_again(query) == [
        *((0, at) for at in range(HALF, HALF + 10)),
        *((1, at) for at in range(HALF)),
    ]


def test_after_a_reset_to_a_time(query: DrivenQuery, mode: str) -> None:
    reset(query, datetime.now(UTC) - timedelta(hours=1))
    run(query, mode)
    assert len(emitted_again(query)) == 2 * HALF


def test_after_two_resets(query: DrivenQuery, mode: str) -> None:
    for times in (1, 2):
        reset(query, "earliest")
        run(query, mode)
        assert len(emitted_again(query)) == times * 2 * HALF


def test_after_a_reset_to_the_latest_offset(query: DrivenQuery, mode: str) -> None:
    """What was written meanwhile is skipped, and nothing after that."""
    query.produce(7)
    reset(query, "latest")
    query.produce(5)
    run(query, mode)
    assert emitted_again(query) == [(0, at) for at in range(HALF + 7, HALF + 12)]


def test_after_the_offsets_were_deleted(query: DrivenQuery, mode: str) -> None:
    async def ask() -> None:
        async with AdminClient(query.broker.bootstrap) as admin:
            await admin.delete_share_group_offsets(query.group, [query.topic])

    anyio.run(ask)
    run(query, mode)
    assert len(emitted_again(query)) == 2 * HALF


def test_after_the_topic_was_created_again(
    query: DrivenQuery, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query doesn't wait for records of the old topic whose acceptance isn't known to be confirmed."""
    monkeypatch.setattr(drain, "_USUAL_SESSION_S", math.inf)
    query.broker.delete_topic(query.topic)
    query.broker.create_topic(query.topic, 3)
    query.produce(20)
    query.produce(30, 2)
    query.run(settle=mode)
    assert emitted_again(query) == [*((0, at) for at in range(20)), *((2, at) for at in range(30))]


def test_after_a_crash_and_a_reset_below_what_the_checkpoint_knows(broker: Broker, mode: str) -> None:
    """The acceptance of the last micro-batches may be lost, but everything from the start is to be emitted again."""
    query = DrivenQuery(broker)
    query.produce(HALF)
    query.produce(HALF, 1)
    run(query, mode)
    query.produce(40)

    def crash(step: str, batch: int) -> None:
        if step == "committed":
            raise Crash

    query.at = crash
    with pytest.raises(Crash):
        run(query, mode)
    query.at = lambda step, batch: None
    eventually(lambda: not query.members(), "the member that died is removed")
    reset(query, "earliest")
    run(query, mode)
    assert len(emitted_again(query)) == 40 + 2 * HALF + 40
