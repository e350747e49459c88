"""Runs a storm: programs, proxies, kills, and at the end a quiet consumer that reads what is left."""

from __future__ import annotations

import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from kshare import AdminClient, ShareConsumer, sync
from tests.helpers.committed import records_by_partition, records_in
from tests.integration.consumer_storm.diary import Diary, Event, read_diary
from tests.integration.consumer_storm.fault_book import FAULTS, Acknowledged, Acquired
from tests.integration.consumer_storm.faulty_proxies import FaultyProxies
from tests.integration.consumer_storm.judging import Judgement, Place, Witness
from tests.integration.consumer_storm.notes import Orders, text_of

CALM, CALM_LOG, TRAFFIC = "diary-calm", "log-calm", "traffic"
MODULE = "tests.integration.consumer_storm.program"
ROOT = Path(__file__).resolve().parents[3]
CORRUPT_S = 1.0
MOST_CORRUPT = 60
STARTING_S = 60.0
LATE_S = 40.0
STARTED = 5_000
"""The size in bytes of the diary of a process that works."""
LETTERS_S = 20.0
LOOK_S = 1.0
EXTRA_S = 60.0
"""How much longer a storm lasts if it hasn't had everything yet. On a busy machine, programs take long to start."""
HAD = (
    *(f"fault: {fault}" for fault in FAULTS),
    "fault: kill",
    *(f"noticed {event}" for event in ("Damaged", "SessionEnded", "LeaseLost session", "LeaseLost expired")),
    *(f"did {deed}" for deed in ("batch", "commit", "pause", "maximum", "subscribe", "stop", "closed")),
    *(f"did {deed}" for deed in ("accept", "release", "reject", "renew", "nested loop", "slow body")),
    *(f"did {deed}" for deed in ("raised in a body", "cancelled in a body", "settled in another thread")),
)
"""What a storm has to have had, or it shows nothing."""
_DLQ = "__dlq.errors."


@dataclass(frozen=True)
class Plan:
    seed: int
    lasts_s: float
    partitions: int = 8
    lock_s: float = 1.5
    limit: int = 5
    rate: float = 0.1
    kinds: tuple[str, ...] = ("asyncio", "threads", "trio")
    defect: str | None = None
    ends_at: str | None = None
    """The storm ends as soon as there is a problem of this kind."""
    calm_s: float = 100.0
    """How long it takes at most until nothing is left. The longest pause of a consumer is a minute."""


@dataclass
class _Life:
    process: subprocess.Popen[bytes]
    kind: str
    diary: Path
    log: Path
    was_killed: bool = False


@dataclass
class Storm:
    plan: Plan
    bootstrap: str
    group: str
    topic: str
    grave: str | None
    """The dead-letter topic."""
    can_renew: bool
    folder: Path
    proxies: FaultyProxies
    lengthen_locks: Callable[[], None]
    """Called before the rest is read: only faults are to make locks expire."""
    lives: list[_Life] = field(default_factory=list)
    kills: int = 0
    took_s: float = 0.0

    def run(self) -> Judgement:
        """All of it, blocking."""
        self._chance = random.Random(self.plan.seed)
        self._is_over = False
        self.proxies.start()
        try:
            for kind in self.plan.kinds:
                self._start(kind)
            writer = threading.Thread(target=self._write)
            writer.start()
            found = self._disturb()
            self._is_over = True
            writer.join()
            if found is not None:
                return found
            self._end_programs()
            self.lengthen_locks()
            with _logged_to(self.folder / CALM_LOG):
                left = anyio.run(self._calm)
            self._keep_traffic()
            return anyio.run(self._judge, left)
        finally:
            self._is_over = True
            for life in self.lives:
                life.process.kill()
                life.process.wait()
            self.proxies.stop()

    # --- processes

    def _start(self, kind: str) -> None:
        number = len(self.lives)
        diary, log = self.folder / f"diary-{number:03}", self.folder / f"log-{number:03}"
        diary.touch()
        plan = self.plan
        orders = Orders(
            self.proxies.bootstrap,
            self.group,
            self.topic,
            str(self._stop),
            plan.lock_s,
            self.can_renew,
            plan.seed * 1000 + number,
            kind,
            plan.defect,
        )
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", MODULE, orders.as_json(), str(diary)],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env=os.environ | ({"KSHARE_FAST": "0"} if plan.defect else {}),
            )
        self.lives.append(_Life(process, kind, diary, log))

    def _disturb(self) -> Judgement | None:
        """Kill a process now and then, drop connections, and corrupt a partition for a moment.

        Returns a judgement if it is what the storm ends at.
        """
        chance, proxies = self._chance, self.proxies
        began = time.monotonic()
        while not all(life.diary.stat().st_size > STARTED for life in self.lives):
            assert time.monotonic() < began + STARTING_S, "the programs don't start"
            time.sleep(0.05)
        proxies.rate = self.plan.rate
        began = next_look = time.monotonic()
        until = began + self.plan.lasts_s
        next_kill = began + 2.0
        while (now := time.monotonic()) < until or (now < until + EXTRA_S and self.missing()):
            time.sleep(chance.uniform(0.2, 0.49))
            if chance.random() < 0.3:
                self._corrupt()
            if chance.random() < 0.2:
                proxies.drop_one()
            if self.plan.ends_at and time.monotonic() > next_look:
                judgement = anyio.run(self._look)
                self.took_s = time.monotonic() - began
                if judgement.problems[self.plan.ends_at]:
                    return judgement
                next_look = time.monotonic() + LOOK_S
            if time.monotonic() > next_kill:
                next_kill = time.monotonic() + chance.uniform(3.0, 8.0)
                life = chance.choice([live for live in self.lives if not live.was_killed])
                self._check(life)
                if life.diary.stat().st_size < STARTED:
                    continue
                life.was_killed = True
                life.process.kill()
                self.kills += 1
                self._start(life.kind)
        proxies.rate = 0.0
        self.took_s = time.monotonic() - began
        return None

    def missing(self) -> list[str]:
        """What hasn't happened yet."""
        had = Counter({f"fault: {fault}": count for fault, count in self.proxies.done.items()})
        had["fault: kill"] = self.kills
        for life in self.lives:
            for entry in read_diary(life.diary):
                if entry.event in (Event.DID, Event.NOTICED):
                    had[f"{entry.event} {entry.text}"] += 1
        return [name for name in HAD if not had[name]]

    def _corrupt(self) -> None:
        """Until some corrupt responses have reached consumers, or for a moment."""
        proxies = self.proxies
        until, enough = time.monotonic() + CORRUPT_S, proxies.done["corrupt batch"] + MOST_CORRUPT
        proxies.is_corrupting = True
        while time.monotonic() < until and proxies.done["corrupt batch"] < enough:
            time.sleep(0.005)
        proxies.is_corrupting = False

    def _end_programs(self) -> None:
        self._stop.touch()
        for life in self.lives:
            try:
                life.process.wait(LATE_S)
            except subprocess.TimeoutExpired:
                life.process.send_signal(signal.SIGUSR1)
                time.sleep(0.4)
                raise AssertionError(f"doesn't end: {life.log.read_text()[-5000:]}") from None
            self._check(life)

    @property
    def _stop(self) -> Path:
        return self.folder / "stop"

    def _check(self, life: _Life) -> None:
        """A process that wasn't killed mustn't have failed."""
        code = life.process.poll()
        if code and not life.was_killed:
            raise AssertionError(f"{life.log} ended with {code}: {life.log.read_text()[-3000:]}")

    def _keep_traffic(self) -> None:
        """For whoever looks for the cause of a problem."""
        rows: list[Acquired | Acknowledged] = [*self.proxies.acquired, *self.proxies.acknowledged]
        rows.sort(key=lambda row: row.at)
        (self.folder / TRAFFIC).write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")

    # --- records

    def _write(self) -> None:
        chance = random.Random(self.plan.seed + 1)
        number = 0
        with sync.Producer(self.bootstrap) as producer:
            while not self._is_over:
                partition = chance.randrange(self.plan.partitions)
                for _ in range(chance.choice([1, 5, 20, 60])):
                    producer.enqueue(self.topic, b"%d" % number, partition=partition)
                    number += 1
                producer.flush()
                time.sleep(0.05)

    async def _calm(self) -> set[Place]:
        """Read on without faults, until nothing is left, or for `calm_s`. Returns what is left."""
        diary = Diary(self.folder / CALM)
        left: set[Place] = {(-1, -1)}
        async with (
            ShareConsumer(self.proxies.bootstrap, group=self.group, topics=[self.topic]) as consumer,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(_accept_all, consumer, diary)
            with anyio.move_on_after(self.plan.calm_s):
                while left:
                    await anyio.sleep(0.25)
                    left = await self._left()
            tasks.cancel_scope.cancel()
        return left

    async def _left(self) -> set[Place]:
        """The first offset of each partition that isn't finished."""
        async with AdminClient(self.bootstrap) as admin:
            progress = await admin.share_group_progress(self.group)
        left = {(row.partition, row.start_offset or 0) for row in progress if row.lag != 0}
        return left if progress else {(-1, -1)}

    async def _look(self) -> Judgement:
        """Judge what has happened so far, without the ends of records."""
        until = time.monotonic()
        witnesses = [
            witness._replace(entries=[entry for entry in witness.entries if entry.at < until])
            for witness in self._witnesses()
        ]
        acknowledged = [row for row in [*self.proxies.acknowledged] if row.at < until]
        return Judgement(await self._written(), witnesses, [*self.proxies.acquired], acknowledged)

    async def _judge(self, left: set[Place]) -> Judgement:
        """`left`: the first offset of each partition that isn't finished."""
        written, witnesses = await self._written(), self._witnesses()
        rest = {place for place in written for at in left if place[0] == at[0] and place[1] >= at[1]}

        def judge(dead: dict[Place, str] | None) -> Judgement:
            judgement = Judgement(
                written,
                witnesses,
                self.proxies.acquired,
                self.proxies.acknowledged,
                limit=self.plan.limit,
            )
            judgement.judge_ends(rest, dead)
            return judgement

        if self.grave is None:
            return judge(None)
        judgement = judge(await self._dead())
        with anyio.move_on_after(LETTERS_S):  # brokers write them after they have archived
            while judgement.problems["lost"]:
                await anyio.sleep(0.5)
                judgement = judge(await self._dead())
        return judgement

    async def _written(self) -> dict[Place, str]:
        return {
            (number, record.offset): (record.value or b"").decode()
            for number, records in (await records_by_partition(self.bootstrap, self.topic)).items()
            for record in records
        }

    def _witnesses(self) -> list[Witness]:
        found = [
            Witness([*read_diary(life.diary)], life.log.read_text("utf-8", "replace"), life.was_killed)
            for life in self.lives
        ]
        calm, log = self.folder / CALM, self.folder / CALM_LOG
        return [*found, Witness([*read_diary(calm)], log.read_text(), False)] if calm.exists() else found

    async def _dead(self) -> dict[Place, str]:
        assert self.grave is not None
        dead = {}
        for letter in await records_in(self.bootstrap, self.grave):
            headers = {name: bytes(value or b"").decode() for name, value in letter.headers}
            dead[int(headers[_DLQ + "partition"]), int(headers[_DLQ + "offset"])] = headers[_DLQ + "message"]
        return dead


@contextmanager
def _logged_to(path: Path) -> Iterator[None]:
    logger, handler = logging.getLogger("kshare.client"), logging.FileHandler(path)
    handler.setLevel(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


async def _accept_all(consumer: Any, diary: Diary) -> None:
    async for record in consumer:
        member, place = consumer.member_id, (record.partition, record.offset)
        diary.write(Event.HANDED, member, place, record.delivery_count, text_of(record.value))
        diary.write(Event.ENDED, member, place, record.delivery_count)
