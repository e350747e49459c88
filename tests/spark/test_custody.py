"""Custody, stopped between any two steps: nothing is ever lost, and alone in its group a query emits nothing twice."""

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
from kshare.spark.custody import Custody, Verdict
from kshare.spark.offset_sets import PartitionRange
from kshare.spark.options import Settle
from kshare.spark.range_holdings import RangeHoldings
from kshare.spark.ranges import RecordRange, Token, TokenError
from kshare.state.lease_timers import LeaseTimers
from tests.fakes.spark_model import PARTITIONS, Record, World

pytestmark = pytest.mark.lengthy

ORDERS = PARTITIONS[0]
SIZES = st.integers(1, 6)
WHERE = st.sampled_from(PARTITIONS)


class Alone(RuleBasedStateMachine):
    """The query is the group's only consumer. Any step may be the last before a crash."""

    settle: ClassVar[Settle] = "sink"

    @initialize(records=st.integers(1, 12))
    def begin(self, records: int) -> None:
        self.world = World(records, self.settle)

    @rule(where=WHERE, most=SIZES)
    def fetch(self, where: tuple[bytes, int], most: int) -> None:
        self.world.fetch(where, most)

    @rule(is_answered=st.booleans())
    def serve(self, is_answered: bool) -> None:
        self.world.serve(is_answered=is_answered)

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
        """All in a row, so that long stories are told too."""
        world = self.world
        story = [
            lambda: world.fetch(where, most),
            lambda: world.ask_latest(most),
            world.log_plan,
            world.write_sink,
            world.commit,
            lambda: world.ask_latest(most),
            lambda: world.serve(is_answered=True),
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
    """What Spark's offset log holds is accepted at once."""

    settle = "checkpoint"


class InCompany(Alone):
    """Others take what is free, and may finish it: then a record may be worked on twice, and still none is lost."""

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
    """Where Spark stands has to be told from what it reads."""

    @initialize(records=st.integers(1, 12))
    def begin(self, records: int) -> None:
        self.world = World(records, self.settle, is_older=True)


class ByRow(Alone):
    """Rows that are released come again and rows that are rejected don't; after a crash some may come twice."""

    @initialize(records=st.integers(1, 12))
    def begin(self, records: int) -> None:
        self.world = World(records, self.settle, by_row=True)

    @rule(index=st.integers(0, 20), verdict=st.sampled_from(["release", "reject"]))
    def settle_row(self, index: int, verdict: Verdict) -> None:
        self.world.settle_row(index, verdict)

    def judge(self, world: World) -> None:
        assert set(world.emitted()) == set(world.log), "lost"


class ByRowOnOneMachine(ByRow):
    """Verdicts outlive a crash there: only rows that weren't accepted come twice, and released ones certainly do."""

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
        """All in a row, and then the crash for which verdicts are written down."""
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
TestInCompany = InCompany.TestCase
TestByRow = ByRow.TestCase
TestAloneOnOlderSpark = AloneOnOlderSpark.TestCase
TestByRowOnOneMachine = ByRowOnOneMachine.TestCase
TestByRowOnOlderSpark = ByRowOnOlderSpark.TestCase
for _case in (
    TestAlone,
    TestAloneByCheckpoint,
    TestInCompany,
    TestByRow,
    TestAloneOnOlderSpark,
    TestByRowOnOneMachine,
    TestByRowOnOlderSpark,
):
    _case.settings = QUICK
del _case  # pytest would take it for one more


def started(settle: Settle = "sink", *, by_row: bool = False) -> Custody:
    custody = Custody(settle, by_row=by_row)
    custody.complete(Token())
    return custody


def test_a_released_row_comes_again_and_its_neighbours_do_not() -> None:
    custody = started(by_row=True)
    custody.acquired("orders", PartitionRange(ORDERS, 0, 9), 1)
    token = custody.plan(100)
    assert token is not None
    custody.read(Token(), token, is_logged=True)
    assert custody.settle_rows(PartitionRange(ORDERS, 3, 4), "release") == 2
    assert custody.settle_rows(PartitionRange(ORDERS, 4, 4), "reject") == 1
    decisions = custody.complete(token)
    assert decisions.release == [PartitionRange(ORDERS, 3, 3)]
    assert decisions.reject == [PartitionRange(ORDERS, 4, 4)]
    assert decisions.accept == [PartitionRange(ORDERS, 0, 2), PartitionRange(ORDERS, 5, 9)]
    again = custody.acquired("orders", PartitionRange(ORDERS, 2, 3), 2)
    assert again.accept == [PartitionRange(ORDERS, 2, 2)]
    assert custody.fresh == 1


def test_what_is_confirmed_is_in_no_later_token() -> None:
    custody = started()
    custody.acquired("orders", PartitionRange(ORDERS, 0, 9), 1)
    first = custody.plan(100)
    assert first is not None
    custody.complete(first)
    custody.confirmed(PartitionRange(ORDERS, 0, 4))
    custody.acquired("orders", PartitionRange(ORDERS, 10, 19), 1)
    second = custody.plan(100)
    assert second is not None
    assert [(one.first, one.last) for one in second.owed] == [(5, 9)]
    assert [(one.first, one.last) for one in second.acquired] == [(10, 19)]
    custody.start_moved(ORDERS, 8)
    assert custody.owed == 2


def test_a_limit_cuts_and_the_rest_is_next() -> None:
    custody = started()
    custody.acquired("orders", PartitionRange(ORDERS, 0, 9), 1)
    custody.acquired("orders", PartitionRange(ORDERS, 10, 14), 1)
    token = custody.plan(12)
    assert token is not None
    assert [(one.first, one.last) for one in token.acquired] == [(0, 11)]
    assert custody.fresh == 3


def test_nothing_beyond_the_end_is_emitted() -> None:
    custody = started()
    custody.limit_to({("orders", 0): 6})
    assert not custody.acquired("orders", PartitionRange(ORDERS, 0, 9), 1)
    assert not custody.acquired("orders", PartitionRange(PARTITIONS[1], 0, 9), 1)
    token = custody.plan(100)
    assert token is not None
    assert [(one.first, one.last) for one in token.acquired] == [(0, 5)]
    assert custody.fresh == 0


def test_a_plan_that_was_never_logged_goes_back() -> None:
    custody = started()
    custody.acquired("orders", PartitionRange(ORDERS, 0, 9), 1)
    assert custody.plan(100) is not None
    assert custody.complete(Token()).release == [PartitionRange(ORDERS, 0, 9)]
    assert not custody.acquired("orders", PartitionRange(ORDERS, 0, 9), 2)
    assert custody.fresh == 10


def test_rows_settled_otherwise_before_a_crash_are_emitted_again_and_not_lost() -> None:
    custody = Custody(by_row=True)
    ranges = (RecordRange("orders", str(UUID(bytes=ORDERS[0])), 0, 0, 9),)
    custody.complete(Token(1, acquired=ranges, is_settled_by_row=True))
    assert not custody.acquired("orders", PartitionRange(ORDERS, 3, 3), 2)
    assert custody.fresh == 1


def test_one_checkpoint_is_for_one_query() -> None:
    custody = started()
    with pytest.raises(TokenError, match="another query"):
        custody.complete(Token(batch=7))


@pytest.mark.parametrize("settle", ["sink", "checkpoint"])
def test_a_deleted_topic_is_owed_no_more(settle: Settle) -> None:
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
