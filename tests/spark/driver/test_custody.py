"""Custody, with crashes between any two steps: no record is lost, and a query alone in its group emits none twice."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import ClassVar
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from kshare.engine.reporter import Reporter
from kshare.spark.driver.custody import Custody
from kshare.spark.driver.decisions import Verdict
from kshare.spark.driver.offset_sets import PartitionRange
from kshare.spark.driver.range_holdings import RangeHoldings
from kshare.spark.options import Settle
from kshare.spark.ranges import RecordRange, Token, TokenError
from kshare.state.lease_timers import LeaseTimers
from tests.fakes.spark_model import PARTITIONS, Record, World

pytestmark = pytest.mark.lengthy

ORDERS = PARTITIONS[0]
SIZES = st.integers(1, 6)
WHERE = st.sampled_from(PARTITIONS)


class Alone(RuleBasedStateMachine):
    """The query is the group's only consumer. A crash may follow any step."""

    settle: ClassVar[Settle] = "sink"

    @initialize(records=st.integers(1, 12))
    def begin(self, records: int) -> None:
        self.world = World(records, self.settle)

    @rule(where=WHERE, most=SIZES)
    def fetch(self, where: tuple[bytes, int], most: int) -> None:
        self.world.fetch(where, most)

    @rule(has_response=st.booleans())
    def serve(self, has_response: bool) -> None:
        self.world.serve(has_response=has_response)

    @rule(limit=SIZES)
    def ask_latest(self, limit: int) -> None:
        self.world.ask_latest(limit)

    @rule()
    def log_plan(self) -> None:
        self.world.log_plan()

    @rule()
    def write_sink(self) -> None:
        self.world.write_sink()

    @rule()
    def commit(self) -> None:
        self.world.commit()

    @rule(where=WHERE, most=SIZES, steps=st.integers(1, 7))
    def batch(self, where: tuple[bytes, int], most: int, steps: int) -> None:
        """Several steps in a row, so that long sequences are tested too."""
        world = self.world
        story = [
            lambda: world.fetch(where, most),
            lambda: world.ask_latest(most),
            world.log_plan,
            world.write_sink,
            world.commit,
            lambda: world.ask_latest(most),
            lambda: world.serve(has_response=True),
        ]
        for step in story[:steps]:
            step()  # type: ignore[no-untyped-call]

    @rule()
    def lose_session(self) -> None:
        self.world.lose_session()

    @rule()
    def crash(self) -> None:
        self.world.crash()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.finish()
            self.judge(self.world)

    def judge(self, world: World) -> None:
        emitted = world.emitted()
        assert len(emitted) == len(set(emitted)), "emitted twice"
        assert set(emitted) == set(world.log), "lost"


class AloneByCheckpoint(Alone):
    """Records are accepted as soon as Spark's offset log contains them."""

    settle = "checkpoint"


class AloneByJournal(Alone):
    """Records are accepted as soon as the journal contains them. A frame may be written and the process die."""

    settle = "journal"

    @rule()
    def begin_frame(self) -> None:
        self.world.begin_frame()

    @rule()
    def write_frame(self) -> None:
        self.world.write_frame()

    @rule()
    def end_frame(self) -> None:
        self.world.end_frame()

    @rule(where=WHERE, most=SIZES, steps=st.integers(1, 5))
    def stage(self, where: tuple[bytes, int], most: int, steps: int) -> None:
        """Several steps in a row: the first batch, which isn't journaled, and a frame of the next."""
        world = self.world
        story = [
            lambda: world.fetch(where, most),
            world.begin_frame,
            world.write_frame,
            world.end_frame,
            lambda: world.serve(has_response=True),
        ]
        for step in story[:steps]:
            step()  # type: ignore[no-untyped-call]


class InCompany(Alone):
    """Other consumers acquire and may accept free records: records may be processed twice, but none is lost."""

    @rule(where=WHERE, most=SIZES)
    def other_takes(self, where: tuple[bytes, int], most: int) -> None:
        self.world.other_takes(where, most)

    @rule(is_done=st.booleans())
    def other_ends(self, is_done: bool) -> None:
        self.world.other_ends(is_done=is_done)

    def judge(self, world: World) -> None:
        emitted = world.emitted()
        assert len(emitted) == len(set(emitted)), "emitted twice by this query"
        assert set(emitted) | set(world.worked_on_by_others) == set(world.log), "lost"


class AloneOnOlderSpark(Alone):
    """Spark's current offset must be inferred from what it reads."""

    @initialize(records=st.integers(1, 12))
    def begin(self, records: int) -> None:
        self.world = World(records, self.settle, is_older=True)


class JournalInCompany(InCompany, AloneByJournal):
    """With a journal, and other consumers."""


class JournalOnOlderSpark(AloneByJournal, AloneOnOlderSpark):
    """Spark's current offset must be inferred from what it reads."""


class ByRow(Alone):
    """Released rows are redelivered, rejected rows aren't. After a crash, some rows may be emitted twice."""

    @initialize(records=st.integers(1, 12))
    def begin(self, records: int) -> None:
        self.world = World(records, self.settle, by_row=True)

    @rule(index=st.integers(0, 20), verdict=st.sampled_from(["release", "reject"]))
    def settle_row(self, index: int, verdict: Verdict) -> None:
        self.world.settle_row(index, verdict)

    def judge(self, world: World) -> None:
        assert set(world.emitted()) == set(world.log), "lost"


class ByRowOnOneMachine(ByRow):
    """Verdicts survive a crash: only rows that weren't accepted are emitted twice, and released ones always are."""

    is_older: ClassVar = False

    @initialize(records=st.integers(1, 12))
    def begin(self, records: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.world = World(
            records, self.settle, by_row=True, is_older=self.is_older, folder=Path(self.folder.name)
        )

    @rule()
    def read_again(self) -> None:
        self.world.read_again()

    @rule(where=WHERE, index=st.integers(0, 20), verdict=st.sampled_from(["release", "reject"]))
    def judged_and_read_again(self, where: tuple[bytes, int], index: int, verdict: Verdict) -> None:
        """All steps in a row, followed by a crash, which the written verdicts must survive."""
        world = self.world
        world.fetch(where, 6)
        world.ask_latest(6)
        world.log_plan()
        world.write_sink()
        world.settle_row(index, verdict)
        world.read_again()
        world.commit()
        world.crash()

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            if hasattr(self, "folder"):
                self.folder.cleanup()

    def judge(self, world: World) -> None:
        super().judge(world)
        last: dict[Record, Verdict | None] = {}
        for batch, rows in sorted(world.sink.items()):
            for record in rows:
                assert last.get(record, "release") is not None, "accepted, and emitted again"
                last[record] = world.judged[batch].get(record)
        assert "release" not in last.values(), "released, and lost"


class ByRowOnOlderSpark(ByRowOnOneMachine):
    is_older = True


QUICK = settings(max_examples=150, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow])
TestAlone = Alone.TestCase
TestAloneByCheckpoint = AloneByCheckpoint.TestCase
TestAloneByJournal = AloneByJournal.TestCase
TestInCompany = InCompany.TestCase
TestJournalInCompany = JournalInCompany.TestCase
TestJournalOnOlderSpark = JournalOnOlderSpark.TestCase
TestByRow = ByRow.TestCase
TestAloneOnOlderSpark = AloneOnOlderSpark.TestCase
TestByRowOnOneMachine = ByRowOnOneMachine.TestCase
TestByRowOnOlderSpark = ByRowOnOlderSpark.TestCase
for _case in (
    TestAlone,
    TestAloneByCheckpoint,
    TestAloneByJournal,
    TestInCompany,
    TestJournalInCompany,
    TestJournalOnOlderSpark,
    TestByRow,
    TestAloneOnOlderSpark,
    TestByRowOnOneMachine,
    TestByRowOnOlderSpark,
):
    _case.settings = QUICK
del _case  # otherwise, pytest would collect it


def started(settle: Settle = "sink", *, by_row: bool = False) -> Custody:
    custody = Custody(settle, by_row=by_row)
    custody.complete(Token())
    return custody


def test_only_a_released_row_is_emitted_again() -> None:
    custody = started(by_row=True)
    custody.acquired("orders", PartitionRange(ORDERS, 0, 9), 1)
    token = custody.plan(100)
    assert token is not None
    custody.read(Token(), token, is_logged=True)
    assert custody.settle_rows(PartitionRange(ORDERS, 3, 4), "release") == 2
    assert custody.settle_rows(PartitionRange(ORDERS, 4, 4), "reject") == 1
    decisions = custody.complete(token)
    assert decisions.release_later == [(PartitionRange(ORDERS, 3, 3), 1)]
    assert decisions.reject == [PartitionRange(ORDERS, 4, 4)]
    assert decisions.accept == [PartitionRange(ORDERS, 0, 2), PartitionRange(ORDERS, 5, 9)]
    again = custody.acquired("orders", PartitionRange(ORDERS, 2, 3), 2)
    assert again.accept == [PartitionRange(ORDERS, 2, 2)]
    assert custody.fresh == 1


def test_confirmed_records_are_in_no_later_token() -> None:
    custody = started()
    custody.acquired("orders", PartitionRange(ORDERS, 0, 9), 1)
    first = custody.plan(100)
    assert first is not None
    custody.complete(first)
    custody.confirmed(PartitionRange(ORDERS, 0, 4))
    custody.acquired("orders", PartitionRange(ORDERS, 10, 19), 1)
    second = custody.plan(100)
    assert second is not None
    assert [(range_.first, range_.last) for range_ in second.owed] == [(5, 9)]
    assert [(range_.first, range_.last) for range_ in second.acquired] == [(10, 19)]
    custody.start_moved(ORDERS, 8)
    assert custody.owed == 2


def test_records_beyond_the_limit_are_left_for_the_next_batch() -> None:
    custody = started()
    custody.acquired("orders", PartitionRange(ORDERS, 0, 9), 1)
    custody.acquired("orders", PartitionRange(ORDERS, 10, 14), 1)
    token = custody.plan(12)
    assert token is not None
    assert [(range_.first, range_.last) for range_ in token.acquired] == [(0, 11)]
    assert custody.fresh == 3


def test_records_with_few_deliveries_left_are_in_the_next_token() -> None:
    """Otherwise those that every crash releases again are archived, though no token ever had them."""
    custody = started()
    custody.acquired("orders", PartitionRange(PARTITIONS[1], 0, 9), 1)
    custody.acquired("orders", PartitionRange(ORDERS, 10, 14), 1)
    custody.acquired("orders", PartitionRange(ORDERS, 3, 4), 9)
    token = custody.plan(4)
    assert token is not None
    assert [(range_.first, range_.last, range_.delivery_count) for range_ in token.acquired] == [
        (3, 4, 9),
        (0, 1, 1),
    ]
    assert custody.fresh == 13


def test_nothing_beyond_the_end_is_emitted() -> None:
    custody = started()
    custody.limit_to({("orders", 0): 6})
    assert not custody.acquired("orders", PartitionRange(ORDERS, 0, 9), 1)
    assert not custody.acquired("orders", PartitionRange(PARTITIONS[1], 0, 9), 1)
    token = custody.plan(100)
    assert token is not None
    assert [(range_.first, range_.last) for range_ in token.acquired] == [(0, 5)]
    assert custody.fresh == 0


def test_a_plan_that_was_never_logged_is_released() -> None:
    custody = started()
    custody.acquired("orders", PartitionRange(ORDERS, 0, 9), 1)
    assert custody.plan(100) is not None
    assert custody.complete(Token()).release == [PartitionRange(ORDERS, 0, 9)]
    assert not custody.acquired("orders", PartitionRange(ORDERS, 0, 9), 2)
    assert custody.fresh == 10


def test_rows_with_verdicts_before_a_crash_are_emitted_again_and_not_lost() -> None:
    custody = Custody(by_row=True)
    ranges = (RecordRange("orders", str(UUID(bytes=ORDERS[0])), 0, 0, 9),)
    custody.complete(Token(1, acquired=ranges, is_settled_by_row=True))
    assert not custody.acquired("orders", PartitionRange(ORDERS, 3, 3), 2)
    assert custody.fresh == 1


def test_a_checkpoint_of_another_query_is_refused() -> None:
    custody = started()
    with pytest.raises(TokenError, match="another query"):
        custody.complete(Token(batch=7))


@pytest.mark.parametrize("settle", ["sink", "checkpoint"])
def test_nothing_is_owed_for_a_deleted_topic(settle: Settle) -> None:
    custody = Custody(settle)
    lease_timers = LeaseTimers(can_renew=True, max_lease_s=100.0)
    holdings = RangeHoldings(custody, lease_timers=lease_timers, clock=lambda: 0.0, reporter=Reporter())
    custody.names[ORDERS[0]] = "orders"
    custody.complete(Token())
    custody.acquired("orders", PartitionRange(ORDERS, 0, 9), 1)
    token = custody.plan(100)
    assert token is not None
    assert token.acquired[0].topic_id == str(UUID(bytes=ORDERS[0]))
    custody.complete(token)
    custody.acquired("orders", PartitionRange(ORDERS, 10, 19), 1)
    in_flight = custody.plan(100)
    assert in_flight is not None
    holdings.on_topic_gone(ORDERS[0])
    assert custody.owed == 0
    custody.read(token, in_flight, is_logged=True)
    custody.complete(in_flight)
    assert custody.owed == 0
