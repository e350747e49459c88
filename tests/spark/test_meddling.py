"""A query in whose absence others meddle: offsets are reset, records deleted, older copies of the checkpoint restored.

What the group delivers after a reset is emitted after it, whatever was emitted before. Driven without a JVM. The
report is docs/reports/spark-meddling.md. Whether the checks find anything is tested with two planted defects.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator

import anyio
import pytest

from kshare import AdminClient
from kshare.admin.record_deletion import delete_records_before
from kshare.admin.routing import Router
from kshare.errors import KshareError
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.spark.driver.custody import Custody
from kshare.spark.driver.decisions import Decisions, Verdicts
from kshare.spark.driver.offset_sets import PartitionRange
from kshare.spark.ranges import Token
from kshare.testing import Broker
from tests.spark import meddling_report
from tests.spark.driven import Crash, DrivenQuery
from tests.spark.queries import eventually
from tests.spark.shared_topic import Where

ROUNDS = 24
STEPS = ["planned", "logged", "read", "written", "committed"]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    quick = {"group.share.session.timeout.ms": "3000", "group.share.heartbeat.interval.ms": "500"}
    with Broker(settings=quick) as broker:
        yield broker


class Meddled:
    """A query, and what it owes: the records that it has to emit after the batches that it has emitted so far."""

    def __init__(self, broker: Broker, mode: str, seed: int) -> None:
        self.query = DrivenQuery(broker)
        broker.set_group_config(self.query.group, {"share.delivery.count.limit": "10"})
        self.mode = mode
        self.random = random.Random(seed)
        self.ends, self.begins = [0, 0], [0, 0]
        self.due: set[Where] = set()
        self.lost: set[Where] = set()
        self.twice: Counter[Where] = Counter()
        """Emitted more often than was due."""
        self.unseen: set[Where] = set()
        """Accepted though neither the sink nor the checkpoint or the journal has them."""
        self.refused = self.resets = self.deletions = self.crashes = 0

    def produce(self) -> None:
        for partition in (0, 1):
            count = self.random.randrange(60)
            if count:
                self.query.produce(count, partition)
            self.due |= {(partition, at) for at in range(self.ends[partition], self.ends[partition] + count)}
            self.ends[partition] += count

    def run(self, *, may_crash: bool) -> None:
        """To its end, perhaps after a crash at a random step."""
        before = len(self.query.offset_log)
        if may_crash:
            step, batch = self.random.choice(STEPS), before + self.random.randrange(2)

            def crash(at: str, number: int) -> None:
                if (at, number) == (step, batch):
                    raise Crash

            self.query.at = crash
            try:
                self._run()
            except Crash:
                self.crashes += 1
                if self.mode != "journal":  # that has some of what was accepted
                    self._look_for_unseen(before)
            self.query.at = lambda step, batch: None
        self._run()
        self._look_for_unseen(before)
        batches = range(before, len(self.query.offset_log))
        emitted = Counter(where for batch in batches for where in self.query.sink[batch])
        self.lost |= {(number, at) for number, at in self.due - emitted.keys() if at >= self.begins[number]}
        self.twice += emitted - Counter(self.due)
        self.due.clear()

    def _look_for_unseen(self, before: int) -> None:
        """`before`: the first micro-batch that could emit what is due."""
        tokens = [Token.from_json(json.loads(offset)) for offset in self.query.offset_log[before:]]
        kept = {
            (range_.partition, at)
            for token in tokens
            for range_ in token.acquired
            for at in range(range_.first, range_.last + 1)
        }
        kept |= {where for batch, rows in self.query.sink.items() if batch >= before for where in rows}
        starts = self._starts()
        self.unseen |= {
            (number, at) for number, at in self.due - kept if self.begins[number] <= at < starts[number]
        }

    def _starts(self) -> list[int]:
        """Everything before these offsets is settled."""

        async def ask() -> dict[int, int]:
            async with AdminClient(self.query.broker.bootstrap) as admin:
                rows = await admin.share_group_offsets(self.query.group, {self.query.topic: None})
                return {
                    row.partition: self.ends[row.partition] if row.lag == 0 else row.start_offset or 0
                    for row in rows
                }

        starts = anyio.run(ask)
        return [starts.get(number, 0) for number in (0, 1)]

    def _run(self) -> None:
        self.query.run(maxRecordsPerTrigger="40", settle=self.mode, failOnDataLoss="false")

    def reset(self) -> None:
        number = self.random.randrange(2)
        offset = self.random.randint(self.begins[number], self.ends[number])

        async def ask() -> None:
            async with AdminClient(self.query.broker.bootstrap) as admin:
                await admin.reset_share_group_offsets(
                    self.query.group, offset, topics={self.query.topic: [number]}
                )

        eventually(lambda: not self.query.members(), "the group has no members")
        anyio.run(ask)
        self.due = {where for where in self.due if where[0] != number}
        self.due |= {(number, at) for at in range(offset, self.ends[number])}
        self.resets += 1

    def delete(self) -> None:
        number = self.random.randrange(2)
        self.begins[number] = self.random.randint(self.begins[number], self.ends[number])

        async def ask() -> None:
            async with Pool(NetSettings.parse(self.query.broker.bootstrap)) as pool:
                await delete_records_before(Router(pool, 30.0), self.query.topic, number, self.begins[number])

        anyio.run(ask)
        self.deletions += 1

    def restore_older_copy(self) -> None:
        """It is refused; then the newest one is taken."""
        offsets, commits = list(self.query.offset_log), set(self.query.commit_log)
        if len(offsets) > 2:
            kept = self.random.randrange(1, len(offsets) - 1)
            del self.query.offset_log[kept:]
            self.query.commit_log = set(range(kept))
            with pytest.raises(KshareError, match="older than the"):
                self._run()
            self.query.offset_log, self.query.commit_log = offsets, commits
            self.refused += 1


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", ["sink", "checkpoint", "journal"])
def test_nothing_is_lost(broker: Broker, mode: str) -> None:
    meddled = Meddled(broker, mode, seed=3)
    for _ in range(ROUNDS):
        meddled.produce()
        meddled.run(may_crash=meddled.random.random() < 0.5)
        for meddle in meddled.random.sample([meddled.reset, meddled.delete, meddled.restore_older_copy], 2):
            meddle()
    meddled.run(may_crash=False)
    meddling_report.report(
        [
            f"`{mode}`",
            sum(meddled.ends),
            meddled.crashes,
            meddled.resets,
            meddled.deletions,
            meddled.refused,
            len(meddled.lost),
            meddled.twice.total(),
            len(meddled.unseen),
        ]
    )
    assert not meddled.lost
    assert not meddled.twice
    assert not meddled.unseen


def accept_some_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each span that brokers deliver, the first record is accepted and never emitted."""
    acquired = Custody.acquired

    def defective(custody: Custody, topic: str, span: PartitionRange, delivery_count: int) -> Decisions:
        decisions = acquired(custody, topic, span, delivery_count)
        first = span._replace(last=span.first)
        custody.lost(first)
        decisions.accept.append(first)
        return decisions

    monkeypatch.setattr(Custody, "acquired", defective)


def release_what_was_emitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is to be accepted is released and forgotten, as if it hadn't been emitted. Once in each run."""
    complete = Custody.complete
    done: list[Custody] = []

    def defective(custody: Custody, start: Token, verdicts: Verdicts | None = None) -> Decisions:
        decisions = complete(custody, start, verdicts)
        if not decisions.accept or custody in done:
            return decisions
        done.append(custody)
        for span in decisions.accept:
            custody.confirmed(span)
        return Decisions(release=decisions.accept)

    monkeypatch.setattr(Custody, "complete", defective)


@pytest.mark.lengthy
@pytest.mark.parametrize("plant", [accept_some_unseen, release_what_was_emitted])
def test_the_checks_find_planted_defects(
    broker: Broker, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a crash and without meddling."""
    meddled = Meddled(broker, "sink", seed=1)
    meddled.produce()
    meddled.run(may_crash=False)
    assert (len(meddled.lost), meddled.twice.total(), len(meddled.unseen)) == (0, 0, 0)
    plant(monkeypatch)
    meddled.produce()
    meddled.run(may_crash=False)
    if plant is accept_some_unseen:
        assert meddled.unseen == meddled.lost != set()
        assert not meddled.twice
    else:
        assert meddled.twice
        assert meddled.unseen | meddled.lost == set()
