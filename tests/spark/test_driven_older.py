"""The source, driven as PySpark 4.0 and 4.1 drive it: restarts emit nothing twice, though Spark passes no offset."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kshare.spark.driver.row_decisions import _ask, _runner_of, row_ranges
from kshare.testing import Broker
from tests.spark.driven import Crash, OlderDrivenQuery, Stop

pytestmark = pytest.mark.lengthy

STEPS = ["planned", "logged", "read", "written", "committed"]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    quick = {"group.share.session.timeout.ms": "3000", "group.share.heartbeat.interval.ms": "500"}
    with Broker(settings=quick) as broker:
        yield broker


@pytest.fixture
def query(broker: Broker) -> OlderDrivenQuery:
    return OlderDrivenQuery(broker)


def _stop_after(query: OlderDrivenQuery, records: int, **options: str) -> None:
    """Stop between two triggers, right after Spark has committed the batch with which this many are written."""

    def stop(step: str, batch: int) -> None:
        if step == "committed" and len(query.written) >= records:
            raise Stop

    query.at = stop
    query.run(until=lambda: False, **options)
    query.at = lambda step, batch: None


@pytest.mark.parametrize("settle", ["sink", "checkpoint"])
def test_clean_stops_between_triggers_emit_nothing_again(query: OlderDrivenQuery, settle: str) -> None:
    for life in range(1, 5):
        query.produce(10)
        _stop_after(query, 10 * life, settle=settle)
    query.run(until=lambda: query.lag() == 0, settle=settle)
    query.expect(40)


@pytest.mark.parametrize("settle", ["sink", "checkpoint"])
@pytest.mark.parametrize("step", STEPS)
def test_a_crash_loses_and_duplicates_nothing(query: OlderDrivenQuery, settle: str, step: str) -> None:
    query.produce(150)
    query.produce(150, 1)

    def crash(at: str, number: int) -> None:
        if (at, number) == (step, 1):
            raise Crash

    query.at = crash
    with pytest.raises(Crash):
        query.run(until=lambda: False, maxRecordsPerTrigger="100", settle=settle)
    query.at = lambda step, batch: None
    query.run(until=lambda: query.lag() == 0, maxRecordsPerTrigger="100", settle=settle)
    query.expect(150, 150)


def test_nothing_is_emitted_again_if_spark_passes_the_start_only_when_it_reads(
    query: OlderDrivenQuery,
) -> None:
    """Without `partitions(x, x)`, the runner plans before it knows which batch was complete."""
    query.is_told_the_last_offset = False
    for life in range(1, 4):
        query.produce(10)
        _stop_after(query, 10 * life)
    query.expect(30)


def test_each_replay_leaves_out_the_same_rows(query: OlderDrivenQuery) -> None:
    query.is_told_the_last_offset = False
    query.produce(10)
    _stop_after(query, 10)
    query.produce(10)

    def crash(step: str, batch: int) -> None:
        if (step, batch) == ("read", 1):
            raise Crash

    for _ in range(2):
        query.at = crash
        with pytest.raises(Crash):
            query.run(until=lambda: False)
    query.at = lambda step, batch: None
    query.run(until=lambda: query.lag() == 0)
    query.expect(20)


def test_released_rows_are_emitted_again_after_a_crash(query: OlderDrivenQuery) -> None:
    """A restart begins with `partitions(x, x)`, which must not discard the verdicts on x's rows."""
    query.produce(20)

    def judge(step: str, batch: int) -> None:
        if (step, batch) == ("written", 0):
            path = _runner_of(row_ranges([(query.topic, 0, 7)]), query.group)
            assert path is not None
            assert _ask(path, {"verdict": "release", "rows": {query.topic: {"0": [[7, 7]]}}})["rows"] == 1
        if (step, batch) == ("committed", 0):
            raise Crash

    query.at = judge
    with pytest.raises(Crash):
        query.run(until=lambda: False, settleRows="true")
    query.at = lambda step, batch: None
    query.run(until=lambda: query.lag() == 0, settleRows="true")
    assert sorted(query.written) == sorted([*((0, at) for at in range(20)), (0, 7)])
    assert json.loads(query.offset_log[0])["rows"] is True
