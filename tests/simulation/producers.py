"""A world of producers: plain ones and transactional ones, which are killed, cancelled, cut off and fenced.

At the end, what they said of each record and each transaction is compared with the logs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from random import Random
from typing import Any, NamedTuple, Self

import anyio
from anyio.abc import TaskGroup

from tests.integration.consumer_storm.judging import Place
from tests.simulation.attributes import compression_of
from tests.simulation.loop import SimulatedTime
from tests.simulation.pace import Pace, slow_hours
from tests.simulation.processes import Process
from tests.simulation.producing import Account, Transactions, Writing
from tests.simulation.tap import WriteTap
from tests.simulation.world import Plan, Verdict, World

TOPIC = "ledger"
_SMALL_BATCH = 700
"""In every fourth simulation brokers refuse batches that have more bytes, and producers have to split them."""
_LONGEST_TRANSACTION_S = 600.0
_REST_S = 180.0
"""Until transactions of killed producers are over, and requests that were delayed have arrived."""


@dataclass(frozen=True, kw_only=True)
class ProducerPlan(Plan):
    plain: int
    """How many processes write without transactions."""
    transactional: int
    shares_id: bool
    """Whether all transactional processes have the same transactional id, and fence each other."""
    delivery_timeout_s: float
    transaction_timeout_s: float
    batch_bytes: int
    buffer_bytes: int

    def smaller(self) -> Iterator[Self]:
        yield from super().smaller()
        for name, other in (("plain", "transactional"), ("transactional", "plain")):
            if getattr(self, name) and getattr(self, name) + getattr(self, other) > 1:
                yield replace(self, **{name: getattr(self, name) - 1})


class Found(NamedTuple):
    """A record in a log."""

    offset: int
    value: bytes


class ProducerWorld(World):
    changes = ("suspend", "crash", "partitions", "recreation")
    topic = TOPIC
    watchers = ("operator",)
    plan: ProducerPlan

    @classmethod
    def drawn(cls, seed: int) -> ProducerPlan:
        chance = Random(seed)
        plain = chance.choice([0, 1, 2])
        return ProducerPlan(
            seed=seed,
            nodes=chance.choice([1, 2, 3]),
            partitions=chance.choice([1, 2, 6]),
            lasts_s=chance.choice([5.0, 10.0, 20.0]),
            rate=chance.choice([0.0, 0.05, 0.2]),
            delay_s=chance.choice([0.0005, 0.002, 0.05]),
            capacity=chance.choice([4_096, 65_536, 1 << 20]),
            faults=frozenset(fault for fault in cls.faults if chance.random() < 0.6),
            plain=plain,
            transactional=chance.choice([0, 1, 2] if plain else [1, 2]),
            shares_id=chance.random() < 0.3,
            delivery_timeout_s=chance.choice([0.7, 3.0, 30.0]),
            transaction_timeout_s=chance.choice([2.0, 15.0]),
            batch_bytes=chance.choice([500, 16_384, 524_288]),
            buffer_bytes=chance.choice([4_096, 1 << 25]),
        )

    @classmethod
    def changes_with(cls, plan: Plan) -> Sequence[str]:
        """No crashes if there are transactions: markers that are lost break them, whoever is at fault."""
        has_transactions = isinstance(plan, ProducerPlan) and plan.transactional
        return [change for change in cls.changes if change != "crash" or not has_transactions]

    @classmethod
    def slow(cls, seed: int) -> ProducerPlan:
        chance = Random(f"{seed} slow")
        return replace(
            cls.drawn(seed),
            pace=Pace.slow(seed),
            lasts_s=slow_hours(seed),
            delivery_timeout_s=chance.choice([3.0, 30.0, 300.0]),
            transaction_timeout_s=chance.choice([15.0, 60.0, _LONGEST_TRANSACTION_S]),
        )

    def __init__(self, plan: ProducerPlan, time: SimulatedTime) -> None:
        super().__init__(plan, time)
        limit = {"max.message.bytes": str(_SMALL_BATCH)} if plan.seed % 4 == 0 else {}
        self.broker.cluster.create_topic(TOPIC, plan.partitions, configs=limit)
        self._faults = Random(f"{plan.seed} faults")
        self._rate = 0.0
        self._accounts: list[Account] = []
        self._transactions: list[Transactions] = []

    def new_tap(self) -> WriteTap:
        return WriteTap(self._faults, lambda: self._rate, lambda fault: self.done.update([fault]))

    def set_rate(self, rate: float) -> None:
        self._rate = rate

    # --- programs

    def start(self, tasks: TaskGroup) -> None:
        for _ in range(self.plan.plain):
            self._start_one(tasks, "plain")
        for number in range(self.plan.transactional):
            self._start_one(tasks, "tx-0" if self.plan.shares_id else f"tx-{number}")

    def may_be_killed(self, process: Process) -> bool:
        return not process.ended.is_set() and process.name not in self.watchers

    def restart(self, tasks: TaskGroup, killed: Process) -> None:
        self._start_one(tasks, killed.name.rpartition(".")[0])

    def _start_one(self, tasks: TaskGroup, kind: str) -> None:
        process = self.new_process(f"{kind}.{len(self.processes)}")
        tasks.start_soon(self._live, process, kind)

    async def _live(self, process: Process, kind: str) -> None:
        process.enter()
        plan = self.plan
        writing = Writing(
            process,
            Random(f"{plan.seed} {process.number}"),
            TOPIC,
            lambda: self.partitions,
            {
                "bootstrap_servers": self.bootstrap,
                "delivery_timeout": plan.delivery_timeout_s,
                "compression": compression_of(plan.seed),
                "request_timeout": 5.0,
                "batch_bytes": plan.batch_bytes,
                "buffer_bytes": plan.buffer_bytes,
                "close_timeout": 5.0,
            },
            lambda: self.is_over,
            partial(self.note_left_behind, process),
            plan.pace.slowness,
        )
        try:
            with process.scope:
                if kind == "plain":
                    self._accounts.append(writing.account)
                    await writing.plain()
                else:
                    transactions = Transactions()
                    self._transactions.append(transactions)
                    await writing.in_transactions(kind, plan.transaction_timeout_s, transactions)
        finally:
            process.ended.set()

    # --- the end

    async def judged(self) -> Verdict:
        await anyio.sleep(_REST_S + (_LONGEST_TRANSACTION_S if self.plan.pace.is_slow else 0.0))
        partitions = self.broker.cluster.topics[TOPIC].partitions
        everything: dict[int, list[Found]] = defaultdict(list)
        for (number, offset), value in self.ledger.written().items():
            everything[number].append(Found(offset, value.encode()))
        lost = {
            row.value
            for number, rows in everything.items()
            for row in rows
            if self.ledger.gone((number, row.offset)) < inf
        }
        committed = {number: list(committed_in(partition)) for number, partition in enumerate(partitions)}
        verdict = Verdict(defaultdict(list))
        for account in self._accounts:
            verdict.problems["contradiction"] += account.contradictions(
                everything, lambda place: self.ledger.gone(place) < inf
            )
            verdict.problems["broken promise"] += account.broken
            verdict.counts.update(account.counts)
        visible: defaultdict[bytes, list[Place]] = defaultdict(list)
        for number, found in committed.items():
            for row in found:
                visible[row.value].append((number, row.offset))
        for transactions in self._transactions:
            verdict.problems["transaction"] += transactions.contradictions(visible, lost)
            verdict.problems["broken promise"] += transactions.broken
            verdict.counts.update(transactions.counts)
        verdict.counts["written"] = sum(map(len, everything.values()))
        return verdict


def committed_in(partition: Any) -> Iterator[Found]:
    """What a consumer with isolation level read_committed gets, if no transaction is open any more."""
    pending: defaultdict[int, list[Found]] = defaultdict(list)
    for batch in partition.log.batches_from(partition.log.start_offset):
        records = list(batch.decode())
        if batch.is_control:
            is_commit = int.from_bytes(bytes(records[0].key)[2:4], "big") == 1
            ended = pending.pop(batch.producer_id, [])
            yield from ended if is_commit else ()
            continue
        found = [found_in(record) for record in records]
        if batch.is_transactional:
            pending[batch.producer_id] += found
        else:
            yield from found


def found_in(record: Any) -> Found:
    return Found(record.offset, bytes(record.value))
