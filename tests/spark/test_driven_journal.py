"""A stream with `settle=journal`, driven without a JVM: micro-batches of many lock windows, crashes, and zombies."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any
from unittest import mock

import pytest

from kshare.errors import ConfigError, KshareError
from kshare.spark.driver import range_member
from kshare.spark.journal.journal import Journal
from kshare.spark.journal.store import JournalError
from kshare.testing import Broker
from tests.spark.driven import Crash, DrivenQuery, OlderDrivenQuery, Stop

pytestmark = pytest.mark.lengthy

LOCKS = 100
STEPS = ["planned", "logged", "read", "written", "committed"]
PATIENCE_S = 30.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    quick = {"group.share.session.timeout.ms": "3000", "group.share.heartbeat.interval.ms": "500"}
    with Broker(settings=quick) as broker:
        yield broker


class JournaledQuery(DrivenQuery):
    """Its group locks at most 100 records of a partition."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.journal: dict[str, str] = {}
        broker.set_group_config(self.group, {"share.partition.max.record.locks": str(LOCKS)})

    @classmethod
    def of(cls, other: JournaledQuery) -> JournaledQuery:
        """Another driver with the same options."""
        query = cls(other.broker)
        query.topic, query.group, query.journal = other.topic, other.group, other.journal
        return query

    def options(self) -> dict[str, str]:
        return {**super().options(), "settle": "journal", **self.journal}

    def staged(self) -> int:
        assert self._reader is not None
        return int((self._reader.reportLatestOffset() or {})["staged"])

    def await_staged(self, count: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self.staged() < count:
            assert time.monotonic() < deadline, f"{self.staged()} of {count} are staged"
            time.sleep(0.02)


@pytest.fixture(params=["topic", "folder"])
def query(broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> JournaledQuery:
    query = JournaledQuery(broker)
    if request.param == "folder":
        query.journal = {"journalFolder": str(tmp_path / "journal")}
    return query


def test_a_batch_has_many_lock_windows(query: JournaledQuery) -> None:
    query.produce(2_000)
    query.produce(1_500, 1)
    query.at = lambda step, batch: query.await_staged(3_000) if (step, batch) == ("read", 1) else None
    told = query.run()
    query.expect(2_000, 1_500)
    assert max(map(len, query.sink.values())) > 10 * 2 * LOCKS
    assert (told["staged"], told["held"], told["owed"], told["accepted"]) == (0, 0, 0, 3_500)
    assert query.lag() == 0
    assert query.members() == 0


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_loses_and_repeats_nothing(query: JournaledQuery, step: str) -> None:
    query.produce(700)
    query.produce(700, 1)

    def crash(at: str, batch: int) -> None:
        if (at, batch) == ("read", 1):
            query.await_staged(500)
        if (at, batch) == (step, 2):
            raise Crash

    query.at = crash
    with pytest.raises(Crash):
        query.run(until=lambda: False, maxRecordsPerTrigger="150")
    query.at = lambda step, batch: None
    told = query.run(maxRecordsPerTrigger="150")
    query.expect(700, 700)
    assert (told["staged"], told["owed"]) == (0, 0)


def test_staged_records_survive_many_crashes_in_a_row(query: JournaledQuery) -> None:
    """What is staged was accepted: only the journal knows it."""
    query.produce(900)

    def crash(at: str, batch: int) -> None:
        if at == "read" and batch >= 1 and query.lag() == 0:
            raise Crash

    query.at = crash
    for _ in range(4):
        with pytest.raises(Crash):
            query.run(until=lambda: False, maxRecordsPerTrigger="50")
    query.at = lambda step, batch: None
    query.run(maxRecordsPerTrigger="50")
    query.expect(900)


def test_a_zombie_is_fenced_and_accepts_nothing_more(
    query: JournaledQuery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its driver was suspended; one on another machine has taken over the checkpoint, and then it goes on."""
    query.produce(300)
    is_suspended, may_go_on = Event(), Event()
    zombie = JournaledQuery.of(query)

    def suspend(at: str, batch: int) -> None:
        if (at, batch) == ("read", 2):
            is_suspended.set()
            assert may_go_on.wait(PATIENCE_S)

    zombie.at = suspend
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(zombie.run, until=lambda: False, maxRecordsPerTrigger="50")
        assert is_suspended.wait(PATIENCE_S)
        # On the same machine, the lock on the checkpoint would refuse the second one.
        monkeypatch.setattr(range_member, "socket_folder", lambda: tmp_path)
        query.offset_log, query.commit_log = [*zombie.offset_log], {*zombie.commit_log}
        query.sink = dict(zombie.sink)
        query.run(maxRecordsPerTrigger="50")
        query.expect(300)
        query.produce(200)
        may_go_on.set()
        with pytest.raises(
            KshareError, match=r"another runner has taken over the journal|no longer a member|fenced"
        ):
            running.result(PATIENCE_S)
    query.run(maxRecordsPerTrigger="50")
    query.expect(500)


def test_the_staged_records_are_capped(query: JournaledQuery) -> None:
    query.produce(2_000)
    seen: list[int] = []

    def look(at: str, batch: int) -> None:
        if (at, batch) == ("read", 1):
            query.await_staged(300)
            time.sleep(0.5)
            seen.append(query.staged())

    query.at = look
    query.run(journalMaxRecords="400", maxRecordsPerTrigger="200")
    query.expect(2_000)
    # It stops at the cap; the last window may go beyond it.
    assert 300 <= seen[0] <= 400 + 2 * LOCKS


def test_a_full_journal_is_not_waited_for(query: JournaledQuery) -> None:
    """It has all that a micro-batch can have: nothing more is acquired before."""
    query.produce(1_000)

    def look(at: str, batch: int) -> None:
        if (at, batch) == ("read", 1):
            query.await_staged(100)
        if at == "committed" and sum(map(len, query.sink.values())) >= 800:
            raise Stop

    query.at = look
    query.run(until=lambda: False, journalMaxRecords="100", maxWaitMs="50000")


def test_the_journal_is_continued_with_another_batch_size(query: JournaledQuery) -> None:
    query.produce(600)
    query.at = lambda step, batch: _crash_if((step, batch) == ("logged", 2))
    with pytest.raises(Crash):
        query.run(until=lambda: False, maxRecordsPerTrigger="70")
    query.at = lambda step, batch: None
    query.run(maxRecordsPerTrigger="130")
    query.expect(600)


def _crash_if(is_now: bool) -> None:
    if is_now:
        raise Crash


def test_a_failed_append_ends_the_query_and_nothing_of_it_is_accepted(query: JournaledQuery) -> None:
    for _ in range(10):
        query.produce(50)
    append = Journal.append

    async def failing(journal: Journal, *arguments: Any) -> None:
        if journal.end >= 150:
            raise JournalError("the disk is full")
        await append(journal, *arguments)

    with (
        mock.patch.object(Journal, "append", failing),
        pytest.raises(JournalError, match="the disk is full"),
    ):
        query.run(maxRecordsPerTrigger="50")
    assert query.lag() >= 100
    query.run()
    query.expect(500)


def stop_with_staged(query: JournaledQuery) -> None:
    """Produce 600 records, and stop the query after two micro-batches, while at least 200 are staged."""
    query.produce(600)

    def stop(at: str, batch: int) -> None:
        if (at, batch) == ("read", 1):
            query.await_staged(200)
        if (at, batch) == ("committed", 1):
            raise Stop

    query.at = stop
    query.run(until=lambda: False, maxRecordsPerTrigger="50")
    query.at = lambda step, batch: None


def test_leaving_the_journal_needs_it_to_be_empty(query: JournaledQuery) -> None:
    stop_with_staged(query)
    journal, query.journal = query.journal, {}
    with pytest.raises(JournalError, match=r"has \d+ staged records, which would be lost without it"):
        query.run(settle="sink")
    query.journal = journal
    query.run()
    query.expect(600)
    query.journal = {}
    query.produce(100)
    query.run(settle="sink")
    query.expect(700)
    query.produce(100)
    query.journal = journal
    query.run()
    query.expect(800)


def test_a_vanished_journal_cannot_be_left_either(query: JournaledQuery) -> None:
    stop_with_staged(query)
    if query.journal:
        shutil.rmtree(query.journal["journalFolder"])
    else:
        member = json.loads(query.offset_log[0])["member"]
        query.broker.delete_topic(f"kshare-journal-{query.group}.{member}")
    journal, query.journal = query.journal, {}
    with pytest.raises(JournalError, match="the query's journal has vanished"):
        query.run(settle="sink")
    query.journal = journal
    with pytest.raises(JournalError, match="the query's journal has vanished"):
        query.run()
    query.journal = {}
    with pytest.raises(JournalError, match="the query's journal has vanished"):
        query.run(settle="sink")


def test_a_journal_needs_a_topic_of_its_own(query: JournaledQuery) -> None:
    query.journal = {"journalTopic": query.topic}
    with pytest.raises(
        ConfigError, match=rf"journalTopic and subscribe both name {query.topic}: a journal needs"
    ):
        query.run()


def test_rows_cannot_be_settled_with_a_journal(query: JournaledQuery) -> None:
    with pytest.raises(
        ConfigError, match="settleRows needs settle=sink: with journal, all rows are accepted"
    ):
        query.run(settleRows="true")


def test_retention_must_be_longer_than_records_may_be_staged(query: JournaledQuery) -> None:
    query.broker.set_topic_config(query.topic, {"retention.ms": "60000"})
    query.produce(10)
    with pytest.raises(
        ConfigError, match=r"deletes records after 60 s \(retention.ms\), and records may be staged"
    ):
        query.run()
    query.run(journalMaxAgeMs="20000")
    query.expect(10)
    query.broker.set_topic_config(query.topic, {"cleanup.policy": "compact"})
    query.run()


class OlderJournaledQuery(JournaledQuery, OlderDrivenQuery):
    """As in PySpark 4.0 and 4.1."""


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_on_an_older_spark(broker: Broker, step: str) -> None:
    query = OlderJournaledQuery(broker)
    for _ in range(10):
        query.produce(60)

    def crash(at: str, batch: int) -> None:
        if (at, batch) == ("read", 1):
            query.await_staged(200)
        _crash_if((at, batch) == (step, 2))

    query.at = crash
    with pytest.raises(Crash):
        query.run(until=lambda: False, maxRecordsPerTrigger="80")
    query.at = lambda step, batch: None
    query.run(until=lambda: len(query.written) >= 600, maxRecordsPerTrigger="80")
    query.expect(600)


def test_an_older_copy_of_the_checkpoint_is_refused(query: JournaledQuery) -> None:
    for _ in range(20):
        query.produce(50)

    def crash(at: str, batch: int) -> None:
        if (at, batch) == ("read", 1):
            query.await_lag(0)
        _crash_if((at, batch) == ("committed", 8))

    query.at = crash
    with pytest.raises(Crash):
        query.run(until=lambda: False, maxRecordsPerTrigger="50")
    query.at = lambda step, batch: None
    del query.offset_log[4:]
    query.commit_log = set(range(4))
    with pytest.raises(
        JournalError, match=r"the checkpoint is older than the journal .*restored from a copy"
    ):
        query.run()


def test_a_journal_is_left_and_entered_again(query: JournaledQuery) -> None:
    """The last micro-batch with the journal was complete, although its runner never heard of it."""
    for _ in range(6):
        query.produce(50)

    def stop(at: str, batch: int) -> None:
        if (at, batch) == ("read", 1):
            query.await_lag(0)
        if at == "committed" and len(query.written) == 300:
            raise Stop

    query.at = stop
    query.run(until=lambda: False, maxRecordsPerTrigger="100")
    query.at = lambda step, batch: None
    journal, query.journal = query.journal, {}
    query.run(settle="sink")
    query.produce(50)
    query.journal = journal
    query.run()
    query.expect(350)


def test_a_new_query_tells_what_a_lost_one_has_left(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """With a lost checkpoint, a query begins as a new one, and with a new journal."""
    query = JournaledQuery(broker)
    for _ in range(10):
        query.produce(50)

    def crash(at: str, batch: int) -> None:
        if (at, batch) == ("read", 1):
            query.await_lag(0)
        _crash_if((at, batch) == ("committed", 1))

    query.at = crash
    with pytest.raises(Crash):
        query.run(until=lambda: False, maxRecordsPerTrigger="50")
    lost = json.loads(query.offset_log[0])["member"]
    successor = JournaledQuery.of(query)
    successor.produce(10)
    deadline = time.monotonic() + PATIENCE_S
    while query.members():
        assert time.monotonic() < deadline, "the member of the lost query is still in the group"
        time.sleep(0.1)
    successor.run(failOnLostCheckpoint="false")
    (told,) = [
        record.getMessage()
        for record in caplog.records
        if "staged records of another query" in record.getMessage()
    ]
    assert f"`kshare spark journal return kshare-journal-{query.group}.{lost}`" in told
    assert sorted(successor.written) == [(0, at) for at in range(500, 510)]
