"""Runs restless workers: load, restarts, a dependency that is down again and again, and limits that change."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from kshare import AdminClient, BrokerError, sync
from tests.helpers.committed import records_by_partition, records_in
from tests.integration.restless_workers.judging import Judgement, Place
from tests.integration.restless_workers.pinning import Pinning
from tests.integration.restless_workers.program import Scene
from tests.integration.worker_storm.crew import Crew, Life
from tests.integration.worker_storm.diary import read_diary

MODULE = "tests.integration.restless_workers.program"
PROCESSES = 3
DELIVERIES, LOCK = "share.delivery.count.limit", "share.record.lock.duration.ms"
_USUAL_DELIVERIES = 5
_UP_S, _DOWN_S, _LIMITS_S = (2.0, 4.0), (1.0, 5.0), 4.0
_PAUSE_S = 0.1
"""Between the portions of records that are written."""
_EXTRA_S = 60.0
"""How much longer a storm lasts if it hasn't had everything yet. On a busy machine, programs take long to start."""
_WATCH_S = 0.5
MAX_PINNED = 0.5
"""The default of `max_pinned`."""
PINNED = "seconds that a record pinned more than its share, at most"
HAD = ("limits changed", "restarts", "restarts while the dependency was down")
_STARTING_S, _STOP_S, _LETTERS_S = 60.0, 40.0, 20.0
_DLQ = "__dlq.errors."


@dataclass
class Storm:
    seed: int
    scene: Scene
    partitions: int
    grave: str | None
    """The topic of the brokers' dead letters."""
    folder: Path
    configure: Callable[[dict[str, str]], None]
    """Changes settings of the group."""
    lasts_s: float
    window: int = 2_000
    """The largest in-flight window of a partition."""
    calm_s: float = 120.0
    """How long it takes at most until nothing is left."""
    done: Counter[str] = field(default_factory=Counter)
    took_s: float = 0.0

    def run(self) -> Judgement:
        """All of it, blocking."""
        self._chance = random.Random(self.seed)
        self._is_over = threading.Event()
        self._lowered: list[float] = []
        self._crew = Crew(self.folder, MODULE, [self.scene.as_json()])
        self._down = Path(self.scene.down)
        self._pinning = Pinning(round(MAX_PINNED * self.window))
        writer = threading.Thread(target=self._write)
        watcher = threading.Thread(target=anyio.run, args=[self._watch_windows])
        try:
            self._crew.start(PROCESSES)
            writer.start()
            watcher.start()
            self._disturb()
            self._is_over.set()
            writer.join()
            watcher.join()
            left = anyio.run(self._calm)
            codes = self._crew.stop()
            assert not any(codes), f"exit codes {codes}"
        finally:
            self._is_over.set()
            self._crew.kill()
        return anyio.run(self._judge, left)

    def _write(self) -> None:
        chance, number = random.Random(self.seed + 1), 0
        with sync.Producer(self.scene.bootstrap) as producer:
            while not self._is_over.wait(_PAUSE_S):
                topic = self.scene.urgent if chance.random() < 0.2 else self.scene.plain
                partition = chance.randrange(self.partitions)
                for _ in range(chance.choice([1, 5, 20, 60])):
                    producer.enqueue(topic, b"%d" % number, partition=partition)
                    number += 1
                producer.flush()

    async def _watch_windows(self) -> None:
        async with AdminClient(self.scene.bootstrap) as admin:
            while not self._is_over.is_set():
                with suppress(BrokerError):  # the group has no member yet
                    self._pinning.look(await admin.share_group_progress(self.scene.group), time.monotonic())
                await anyio.sleep(_WATCH_S)

    def _disturb(self) -> None:
        chance, crew = self._chance, self._crew
        until = time.monotonic() + _STARTING_S
        while not all(life.diary.stat().st_size for life in crew.lives):
            assert time.monotonic() < until, "the processes don't start"
            time.sleep(0.05)
        began = now = time.monotonic()
        next_change = began + chance.uniform(*_UP_S)
        next_restart, next_limits, known = began + 1.0, began + _LIMITS_S, _USUAL_DELIVERIES
        while now < began + self.lasts_s or (now < began + self.lasts_s + _EXTRA_S and not self._has_had_all):
            time.sleep(0.1)
            now = time.monotonic()
            if now > next_change:
                is_down = self._down.exists()
                if is_down:
                    self._down.unlink()
                else:
                    self._down.touch()
                    self.done["dependency down"] += 1
                    next_restart = min(next_restart, now + 0.5)
                next_change = now + chance.uniform(*(_UP_S if is_down else _DOWN_S))
            if now > next_restart:
                self._restart(chance.choice(crew.running))
                next_restart = now + chance.uniform(0.5, 3.0)
            if now > next_limits:
                lock_s = chance.choice([1.0, 2.0]) * self.scene.lock_s
                most = chance.choice([4, 5, 8])
                self.configure({DELIVERIES: str(most), LOCK: str(round(lock_s * 1000))})
                if most < known:
                    self._lowered.append(time.time())
                known = most
                self.done["limits changed"] += 1
                next_limits = now + _LIMITS_S
        self._down.unlink(missing_ok=True)
        for life in crew.lives:
            if life.is_over:
                code = life.process.wait(_STOP_S)
                assert code == 0, f"{life.diary} ended with exit code {code}"
        self.took_s = time.monotonic() - began

    @property
    def _has_had_all(self) -> bool:
        return all(self.done[name] for name in HAD)

    def _restart(self, life: Life) -> None:
        if not life.diary.stat().st_size:
            return  # it is still starting
        self.done["restarts"] += 1
        self.done["restarts while the dependency was down"] += self._down.exists()
        life.process.send_signal(signal.SIGTERM)
        life.is_over = True
        self._crew.start(1)

    async def _calm(self) -> int:
        """Wait until nothing is left, for `calm_s` at most. Returns how many records are left."""
        left = -1
        with anyio.move_on_after(self.calm_s):
            while left:
                await anyio.sleep(0.5)
                left = await self._left()
        return left

    async def _left(self) -> int:
        async with AdminClient(self.scene.bootstrap) as admin:
            progress = await admin.share_group_progress(self.scene.group)
        # A partition that the group hasn't read yet has no lag: all of it is left.
        return (
            sum((row.end_offset or 0) if row.lag is None else row.lag for row in progress) if progress else -1
        )

    async def _judge(self, left: int) -> Judgement:
        written: dict[Place, int] = {}
        for topic in (self.scene.plain, self.scene.urgent):
            for number, records in (await records_by_partition(self.scene.bootstrap, topic)).items():
                written |= {(topic, number, record.offset): int(record.value or b"") for record in records}
        letters = [
            int(record.value or b"") for record in await records_in(self.scene.bootstrap, self.scene.dead)
        ]
        entries = [entry for life in self._crew.lives for entry in read_diary(life.diary)]
        logs = [path.read_text("utf-8", "replace") for path in sorted(self.folder.glob("log-*"))]

        async def judge() -> Judgement:
            archived = await self._archived()
            reasons = {place: reason for place, (reason, _) in archived.items()}
            times = {place: at for place, (_, at) in archived.items()}
            return Judgement(written, entries, letters, reasons, logs, left, times, self._lowered)

        judgement = await judge()
        with anyio.move_on_after(_LETTERS_S):  # brokers write them after they have archived
            while judgement.problems["lost"]:
                await anyio.sleep(0.5)
                judgement = await judge()
        judgement.counts.update({f"disturbed: {name}": count for name, count in self.done.items()})
        judgement.counts[PINNED] = round(self._pinning.longest_s)
        judgement.counts["disturbed: paused"] = len([*self.folder.glob("paused-*")])
        judgement.counts["disturbed: hung"] = len([*self.folder.glob("hung-*")])
        judgement.counts["disturbed: held"] = len([*self.folder.glob("held-*")])
        judgement.counts["disturbed: dead-letter function hung"] = len([*self.folder.glob("buried-*")])
        return judgement

    async def _archived(self) -> dict[Place, tuple[str, float]]:
        """What the brokers' dead letters say, and when they were written."""
        archived = {}
        if self.grave is not None:
            for letter in await records_in(self.scene.bootstrap, self.grave):
                told = {name: bytes(value or b"").decode() for name, value in letter.headers}
                place = told[_DLQ + "topic"], int(told[_DLQ + "partition"]), int(told[_DLQ + "offset"])
                archived[place] = told[_DLQ + "message"], letter.timestamp / 1000
        return archived
