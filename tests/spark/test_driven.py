"""The stream's source, driven without a JVM: what is emitted, when it is accepted, and what happens after crashes."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from kshare.errors import ConnectionLost, KshareError
from kshare.protocol.messages import ShareFetchRequest
from kshare.spark.driver import drain
from kshare.spark.driver.row_decisions import _ask, _runner_of, row_ranges, socket_folder
from kshare.spark.ranges import Token
from kshare.spark.splitting import RangePartition
from kshare.sync import ShareConsumer
from kshare.testing import Broker
from tests.spark.driven import Crash, DrivenQuery

pytestmark = pytest.mark.lengthy

STEPS = ["planned", "logged", "read", "written", "committed"]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    quick = {"group.share.session.timeout.ms": "3000", "group.share.heartbeat.interval.ms": "500"}
    with Broker(settings=quick) as broker:
        yield broker


@pytest.fixture
def patience_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits without end for members that may have died, so a drain that waits for one never ends."""
    monkeypatch.setattr(drain, "_USUAL_SESSION_S", math.inf)


@pytest.fixture
def query(broker: Broker) -> DrivenQuery:
    return DrivenQuery(broker)


def test_everything_is_emitted_once_and_accepted(query: DrivenQuery) -> None:
    query.produce(500)
    query.produce(300, 1)
    told = query.run(maxRecordsPerTrigger="200")
    query.expect(500, 300)
    assert len(query.sink) >= 4
    assert query.lag() == 0
    assert (told["emitted"], told["accepted"], told["held"], told["owed"]) == (800, 800, 0, 0)
    assert query.members() == 0


def test_nothing_is_accepted_before_its_batch_is_complete(query: DrivenQuery) -> None:
    lags = []
    query.produce(300)
    query.at = lambda step, batch: lags.append((batch, query.lag())) if step == "written" else None
    query.run(maxRecordsPerTrigger="100")
    assert [lag for batch, lag in lags if batch > 0] == [200, 100]


def test_a_drain_ends_with_the_records_that_existed_at_its_start(query: DrivenQuery) -> None:
    query.produce(100)
    query.at = lambda step, batch: query.produce(10) if (step, batch) == ("read", 0) else None
    query.run(maxRecordsPerTrigger="60")
    query.expect(100)
    assert query.lag() == 10
    query.at = lambda step, batch: None
    query.run()
    query.expect(110)


def test_a_drain_ends_if_others_have_accepted_everything(
    query: DrivenQuery, patience_without_end: None
) -> None:
    """It doesn't wait as long as for members that may have died."""
    query.produce(10)
    with ShareConsumer(query.broker.bootstrap, group=query.group, topics=[query.topic]) as other:
        for record in other:
            record.accept()
            if record.offset == 9:
                break
    query.run()
    query.expect(0)


def test_a_drain_that_gives_up_names_what_is_left(
    query: DrivenQuery, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It ends normally, and the next start of the query tries again."""
    monkeypatch.setattr(drain, "_USUAL_SESSION_S", 0.4)
    query.produce(10, 1)
    with ShareConsumer(query.broker.bootstrap, group=query.group, topics=[query.topic]) as other:
        held = next(other.batches())
        query.run()
        query.expect(0)
        assert f"{query.topic}[1] from offset 0 to 9" in caplog.text
        assert f"{query.topic}[0]" not in caplog.text
        held.release()
    query.run()
    query.expect(0, 10)


@contextmanager
def standing_still(broker: Broker, *, for_ever: bool) -> Iterator[None]:
    """Fetches are answered at once, without records, as real brokers do after records were deleted in the middle of a
    batch, until the session is opened again."""
    sessions = 0

    def ask_for_nothing(request: ShareFetchRequest) -> bool:
        nonlocal sessions
        sessions += request.share_session_epoch == 0
        if sessions > 1 and not for_ever:
            return False
        request.max_records = 0  # brokers respond to that at once
        return True

    fault = broker.faults.add(ShareFetchRequest, times=None, when=ask_for_nothing)
    try:
        yield
    finally:
        fault.stop()


def test_a_drain_goes_on_where_a_broker_stood_still(query: DrivenQuery) -> None:
    """It ended normally, and left all records."""
    query.produce(10)
    query.produce(5, 1)
    with standing_still(query.broker, for_ever=False):
        query.run(failOnDataLoss="false")
    query.expect(10, 5)
    assert query.lag() == 0


def test_a_drain_fails_if_a_broker_stands_still(query: DrivenQuery, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended normally, as if others had the records."""
    monkeypatch.setattr(drain, "_USUAL_SESSION_S", 3.0)
    query.produce(10, 1)
    with (
        standing_still(query.broker, for_ever=True),
        pytest.raises(KshareError, match=rf"{query.topic}\[1\] from offset 0 to 9\. .*stop all consumers"),
    ):
        query.run(failOnDataLoss="false")
    query.run()
    query.expect(0, 10)


def test_a_drain_does_not_wait_for_records_accepted_before_a_crash(
    query: DrivenQuery, patience_without_end: None
) -> None:
    """The response was lost in the crash, and the group's persisted start offset wasn't advanced."""
    query.produce(10)

    def crash(step: str, batch: int) -> None:
        if (step, batch) == ("committed", 0):
            query.produce(10, 1)
        if (step, batch) == ("planned", 1):
            deadline = time.monotonic() + 30
            while query.lag() > 10:
                assert time.monotonic() < deadline, "the batch was never accepted"
            raise Crash

    query.at = crash
    with pytest.raises(Crash):
        query.run(until=lambda: False)
    query.at = lambda step, batch: None
    assert query.run()["owed"] == 0
    query.expect(10, 10)


def test_a_drain_without_records_ends_at_once(query: DrivenQuery) -> None:
    began = time.monotonic()
    query.run()
    assert query.sink == {}
    assert time.monotonic() - began < 30


def test_a_trigger_waits_for_the_first_record(query: DrivenQuery) -> None:
    reader = query.reader(maxWaitMs="60000")
    start = reader.initialOffset()
    coming = threading.Timer(0.5, query.produce, [7])
    coming.start()
    try:
        assert sum(map(len, Token.from_json(reader.latestOffset(start, None)).acquired)) == 7
    finally:
        coming.join()
        reader.stop()


def test_a_trigger_without_max_wait_plans_what_has_arrived_since(query: DrivenQuery) -> None:
    reader = query.reader(maxWaitMs="0")
    start = reader.initialOffset()
    query.produce(7)
    try:
        assert reader.latestOffset(start, None) == start
        deadline = time.monotonic() + 60
        while (end := reader.latestOffset(start, None)) == start:
            assert time.monotonic() < deadline, "the records were never planned"
        assert sum(map(len, Token.from_json(end).acquired)) == 7
    finally:
        reader.stop()


def test_min_partitions_sets_the_number_of_tasks(query: DrivenQuery) -> None:
    query.produce(90)
    query.produce(10, 1)
    reader = query.reader(minPartitions="5")
    start, deadline = reader.initialOffset(), time.monotonic() + 60
    try:
        while (end := reader.latestOffset(start, None)) == start:
            assert time.monotonic() < deadline, "the records were never planned"
        assert sum(map(len, Token.from_json(end).acquired)) == 100, "not both partitions at once"
        tasks = [cast(RangePartition, task).ranges for task in reader.partitions(start, end)]
    finally:
        reader.stop()
    assert sorted(sum(map(len, ranges)) for ranges in tasks) == [20, 20, 20, 20, 20]


def test_the_group_removes_a_member_that_died(query: DrivenQuery) -> None:
    query.produce(10)

    def die(step: str, _: int) -> None:
        if step == "read":
            raise Crash

    query.at = die
    with pytest.raises(Crash):
        query.run()
    assert query.members() == 1
    deadline = time.monotonic() + 60
    while query.members():
        assert time.monotonic() < deadline, "the member was never removed"
        time.sleep(0.05)


@pytest.mark.parametrize("settle", ["sink", "checkpoint"])
@pytest.mark.parametrize(("step", "batch"), [("planned", 0), *((step, 1) for step in STEPS)])
def test_a_crash_loses_and_duplicates_nothing(query: DrivenQuery, settle: str, step: str, batch: int) -> None:
    query.produce(150)
    query.produce(150, 1)

    def crash(at: str, number: int) -> None:
        if (at, number) == (step, batch):
            raise Crash

    query.at = crash
    with pytest.raises(Crash):
        query.run(maxRecordsPerTrigger="100", settle=settle)
    query.at = lambda step, batch: None
    query.run(maxRecordsPerTrigger="100", settle=settle)
    query.expect(150, 150)
    assert query.lag() == 0


@pytest.mark.parametrize(("limit", "crashes"), [(2, 1), (2, 2), (5, 2)])
def test_each_crash_costs_records_that_were_not_logged_a_delivery(
    query: DrivenQuery, patience_without_end: None, limit: int, crashes: int
) -> None:
    """At the delivery limit, brokers archive a record: it becomes a dead letter, and is never delivered again."""
    query.produce(1)
    grave = f"dlq.{query.group}"
    query.broker.create_topic(grave, settings={"errors.deadletterqueue.group.enable": "true"})
    query.broker.set_group_config(
        query.group,
        {"share.delivery.count.limit": str(limit), "errors.deadletterqueue.topic.name": grave},
    )

    def crash(at: str, _: int) -> None:
        if at == "planned":
            raise Crash

    query.at = crash
    for _ in range(crashes):
        with pytest.raises(Crash):
            query.run()
    query.at = lambda step, batch: None
    query.run()
    letters = [dict(letter.headers) for letter in query.broker.records(grave)]
    if crashes < limit:
        query.expect(1)
        assert not letters
    else:
        query.expect(0)
        assert [letter["__dlq.errors.delivery.count"] for letter in letters] == [b"2"]


def test_a_logged_micro_batch_is_read_even_beyond_the_delivery_limit(query: DrivenQuery) -> None:
    """What Spark's log contains is read from the topic, whatever its state in the group is."""
    query.produce(20)

    def crash(at: str, _: int) -> None:
        if at == "read":
            raise Crash

    query.at = crash
    for _ in range(6):  # one more than the delivery limit
        with pytest.raises(Crash):
            query.run()
    query.at = lambda step, batch: None
    query.run()
    query.expect(20)
    assert query.lag() == 0


@pytest.mark.parametrize(("settle", "step"), [("sink", "written"), ("checkpoint", "read")])
def test_broken_connections_have_no_visible_effect(query: DrivenQuery, settle: str, step: str) -> None:
    query.produce(150)
    query.produce(150, 1)
    query.at = lambda at, _: query.broker.hang_up("kshare") if at == step else None
    query.run(maxRecordsPerTrigger="100", settle=settle)
    query.expect(150, 150)
    assert query.lag() == 0


def test_by_checkpoint_records_are_accepted_while_their_batch_runs(query: DrivenQuery) -> None:
    query.produce(300)

    def look(step: str, batch: int) -> None:
        if step == "written" and batch == 1:
            deadline = time.monotonic() + 30
            while query.lag() > 100:
                assert time.monotonic() < deadline, "not accepted while the batch ran"

    query.at = look
    query.run(maxRecordsPerTrigger="100", settle="checkpoint")
    query.expect(300)


def test_asynchronously_logged_offsets_are_refused(query: DrivenQuery) -> None:
    query.produce(10)
    reader = query.reader(maxRecordsPerTrigger="5")
    try:
        first = reader.latestOffset(reader.initialOffset(), None)
        reader.partitions(reader.initialOffset(), first)
        second = reader.latestOffset(first, None)
        with pytest.raises(KshareError, match="asyncProgressTrackingEnabled out"):
            reader.partitions(first, second)
    finally:
        reader.stop()


def test_rows_are_rejected_and_released(query: DrivenQuery) -> None:
    query.produce(20)

    def judge(step: str, batch: int) -> None:
        if (step, batch) == ("written", 0):
            path = _runner_of(row_ranges([(query.topic, 0, 3), (query.topic, 0, 4)]), None)
            assert path is not None
            assert _ask(path, {"verdict": "reject", "rows": {query.topic: {"0": [[3, 4]]}}})["rows"] == 2
            assert _ask(path, {"verdict": "release", "rows": {query.topic: {"0": [[7, 7]]}}})["rows"] == 1
            assert _runner_of(row_ranges([(query.topic, 0, 99)]), None) is None

    query.at = judge
    told = query.run(settleRows="true", releaseDelayMs="1000")
    assert sorted(query.written) == sorted([(0, at) for at in range(20)] + [(0, 7)])
    assert told["delayed"] == 0
    assert (told["accepted"], told["rejected"], told["released"]) == (18, 2, 1)
    assert query.lag() == 0


def test_rows_that_wait_are_released_when_the_query_stops(query: DrivenQuery) -> None:
    query.produce(20)

    def judge(step: str, batch: int) -> None:
        if (step, batch) == ("written", 0):
            path = _runner_of(row_ranges([(query.topic, 0, 7)]), None)
            assert path is not None
            assert _ask(path, {"verdict": "release", "rows": {query.topic: {"0": [[7, 7]]}}})["rows"] == 1

    def is_accepted() -> bool:
        told = query.progress()
        return (told["accepted"], told["delayed"], told["released"]) == (19, 1, 0)

    query.at = judge
    query.run(until=is_accepted, settleRows="true", releaseDelayMs="600000")
    query.at = lambda step, batch: None
    query.run()
    assert sorted(query.written) == sorted([(0, at) for at in range(20)] + [(0, 7)])


def test_rows_are_combined_into_ranges() -> None:
    rows = [("a", 1, 5), ("a", 0, 2), ("a", 0, 1), ("b", 0, 9), ("a", 0, 4)]
    assert row_ranges(rows) == {"a": {"0": [[1, 2], [4, 4]], "1": [[5, 5]]}, "b": {"0": [[9, 9]]}}


@pytest.mark.parametrize("is_known", [True, False])
def test_released_rows_are_emitted_again_after_a_crash_too(query: DrivenQuery, is_known: bool) -> None:
    """On the same machine exactly these; elsewhere the whole batch whose acceptance was lost, but never fewer."""
    query.produce(20)

    def judge(step: str, batch: int) -> None:
        if (step, batch) == ("written", 0):
            path = _runner_of(row_ranges([(query.topic, 0, 7)]), None)
            assert path is not None
            assert _ask(path, {"verdict": "release", "rows": {query.topic: {"0": [[7, 7]]}}})["rows"] == 1
        if (step, batch) == ("committed", 0):
            raise Crash

    query.at = judge
    with pytest.raises(Crash):
        query.run(settleRows="true")
    query.at = lambda step, batch: None
    if not is_known:
        member = json.loads(query.offset_log[0])["member"]
        (socket_folder() / f"{member}.verdicts").unlink()
    query.run(settleRows="true")
    again = [(0, 7)] if is_known else [(0, at) for at in range(20)]
    assert sorted(query.written) == sorted([(0, at) for at in range(20)] + again)
    assert query.lag() == 0


def test_a_runner_that_fails_to_start_leaves_no_thread(query: DrivenQuery) -> None:
    before = threading.active_count()
    reader = query.reader(**{"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.request.timeout.ms": "500"})
    with pytest.raises(ConnectionLost, match=r"can't reach 127\.0\.0\.1:1"):
        reader.latestOffset(reader.initialOffset(), None)
    reader.stop()
    assert threading.active_count() == before
