"""Reusing a checkpoint with other options, without a JVM: it is refused, or no record is lost and the query ends."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import pytest

from kshare.errors import KshareError
from kshare.spark.driver import drain
from kshare.spark.driver.row_decisions import _ask, _runner_of, row_ranges
from kshare.testing import Broker
from tests.spark.driven import Crash, DrivenQuery, OlderDrivenQuery

pytestmark = pytest.mark.lengthy


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    quick = {"group.share.session.timeout.ms": "3000", "group.share.heartbeat.interval.ms": "500"}
    with Broker(settings=quick) as broker:
        yield broker


def crash_at(step: str, batch: int) -> None:
    """The batch is complete, and its acceptance hasn't been sent."""
    if (step, batch) == ("committed", 0):
        raise Crash


def crashed(query: DrivenQuery, **options: str) -> None:
    query.at = crash_at
    with pytest.raises(Crash):
        query.run(until=lambda: False, **options)
    query.at = lambda step, batch: None


@pytest.mark.parametrize("driven", [DrivenQuery, OlderDrivenQuery])
def test_another_group_is_refused_with_both_names(broker: Broker, driven: type[DrivenQuery]) -> None:
    query = driven(broker)
    query.produce(10)
    crashed(query)
    first, query.group = query.group, f"{query.group}-other"
    broker.set_group_config(query.group, {"share.auto.offset.reset": "earliest"})
    with pytest.raises(KshareError) as refused:
        query.run(until=lambda: False)
    for words in (f"belongs to group '{first}'", f"with group '{query.group}'", "checkpointLocation"):
        assert words in str(refused.value)
    assert query.members() == 0
    query.offset_log.clear()
    query.commit_log.clear()
    query.sink.clear()
    query.run(until=lambda: query.lag() == 0)
    query.expect(10)


@pytest.mark.parametrize("driven", [DrivenQuery, OlderDrivenQuery])
def test_a_replay_for_another_group_is_refused(broker: Broker, driven: type[DrivenQuery]) -> None:
    query = driven(broker)
    query.produce(10)

    def crash(step: str, _: int) -> None:
        if step == "logged":
            raise Crash

    query.at = crash
    with pytest.raises(Crash):
        query.run(until=lambda: False)
    query.group += "-other"
    with pytest.raises(KshareError, match="belongs to group"):
        query.run(until=lambda: False)


def test_tokens_without_a_group_are_accepted(broker: Broker) -> None:
    """Tokens of versions that didn't write the group. The next one that is logged contains it."""
    query = DrivenQuery(broker)
    query.produce(10)
    crashed(query)
    older = json.loads(query.offset_log[0])
    assert older.pop("group") == query.group
    query.offset_log[0] = json.dumps(older)
    query.produce(5, 1)
    query.run()
    query.expect(10, 5)
    assert json.loads(query.offset_log[-1])["group"] == query.group


def test_a_drain_does_not_wait_for_records_owed_of_an_unsubscribed_topic(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They can't be accepted without that topic, but are kept for when the query reads it again."""
    monkeypatch.setattr(drain, "_USUAL_SESSION_S", math.inf)
    query = DrivenQuery(broker)
    query.produce(10)
    crashed(query)
    first, query.topic = query.topic, f"{query.topic}-other"
    broker.create_topic(query.topic, 2)
    query.produce(3, 1)
    query.run()
    assert [(1, at) for at in range(3)] == query.sink.pop(1)
    query.topic = first
    assert query.run()["skippedDuplicates"] == 10
    query.expect(10)
    assert query.lag() == 0


@pytest.mark.parametrize(("before", "after"), [("sink", "checkpoint"), ("checkpoint", "sink")])
def test_settle_can_be_changed(broker: Broker, before: str, after: str) -> None:
    query = DrivenQuery(broker)
    query.produce(10)
    crashed(query, settle=before)
    query.produce(5, 1)
    query.run(settle=after)
    query.expect(10, 5)
    assert query.lag() == 0


def test_released_rows_are_emitted_again_without_settle_rows(
    broker: Broker,
) -> None:
    query = DrivenQuery(broker)
    query.produce(20)

    def judge(step: str, batch: int) -> None:
        if (step, batch) == ("written", 0):
            settle(query, "release", 7)
        crash_at(step, batch)

    query.at = judge
    with pytest.raises(Crash):
        query.run(settleRows="true")
    query.at = lambda step, batch: None
    query.run()
    assert sorted(query.written) == sorted([*((0, at) for at in range(20)), (0, 7)])


def test_released_rows_are_emitted_again_if_their_batch_was_read_twice(broker: Broker) -> None:
    query = DrivenQuery(broker)
    query.produce(20)

    def judge(step: str, batch: int) -> None:
        if (step, batch) == ("written", 0):
            settle(query, "release", 7)
            query.read_again()
        crash_at(step, batch)

    query.at = judge
    with pytest.raises(Crash):
        query.run(settleRows="true")
    query.at = lambda step, batch: None
    query.run(settleRows="true")
    assert sorted(query.written) == sorted([*((0, at) for at in range(20)), (0, 7)])


def settle(query: DrivenQuery, verdict: str, offset: int) -> None:
    rows = row_ranges([(query.topic, 0, offset)])
    path = _runner_of(rows, query.group)
    assert path is not None
    assert _ask(path, {"verdict": verdict, "rows": rows})["rows"] == 1
