"""A storm over a query in a real Spark: drivers that are restarted repeatedly, load, another consumer, broker kills.

Decides how often each fault happens. The results are evaluated by `judging`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from random import Random
from threading import Event, Thread

from kshare.spark.options import Settle
from tests.spark.real_storm.company import Company
from tests.spark.real_storm.fates import JOURNAL_STEPS, STEPS, Fate, Ledger, fates
from tests.spark.real_storm.places import Place
from tools.spark import environment

GROUP, TOPIC = "storm", "storm"
SETTINGS = {
    "group.share.session.timeout.ms": "6000",
    "group.share.min.session.timeout.ms": "6000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.delivery.count.limit": "10",  # each crash costs acquired records a delivery; the default is 5
}
_BACKLOG = 4_000
_BATCH = 500
_COMPANY_PAUSE_S = 0.01
_BETWEEN_STRIKES_S = (15.0, 35.0)
_WITH_SPARK = 4
_DRIVER_S = 600.0
_GONE_S = 60.0


class Storm:
    """`total`: the least number of records. There are more if the query has processed them before its last fate."""

    def __init__(
        self,
        place: Place,
        folder: Path,
        *,
        master: str,
        settle: Settle,
        is_alone: bool,
        total: int,
        seed: str,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.place, self.folder, self.master, self.settle = place, folder, master, settle
        self.is_alone, self.total, self.options = is_alone, total, options or {}
        """`options`: further ones of the query."""
        self.ledger = Ledger(folder)
        self.random = Random(seed)
        self.company = Company(place.bootstrap, GROUP, TOPIC, _COMPANY_PAUSE_S)
        self.mark = uuid.uuid4().hex
        self.drivers = 0
        # With fewer partitions than members, all members share each. Otherwise every member would have its own.
        self.partitions = 4 if is_alone else 1
        (folder / "sink").mkdir(parents=True)

    def rage(self) -> None:
        """Run until every fate has happened, the topic is drained, and all processes have ended."""
        plan = fates(self.random, _WITH_SPARK, JOURNAL_STEPS if self.settle == "journal" else STEPS)
        self.place.begin(TOPIC, self.partitions, GROUP)
        with nullcontext() if self.is_alone else self.company.at_work(), ExitStack() as life:
            life.callback(self._kill_what_is_left)
            life.enter_context(self._feeding(len(plan) - 1))
            life.enter_context(self._striking(len(plan) - 1))
            while (left := self._left(plan)) and not self.ledger.read("failed"):
                self._drive(left)
        self._see_that_all_are_gone()

    # --- the query

    def _left(self, plan: list[Fate]) -> list[Fate]:
        if self.ledger.read("drained"):
            return []
        done = {entry["number"] for entry in self.ledger.read("crash")}
        return [fate for fate in plan if fate.number not in done]

    def _drive(self, left: list[Fate]) -> None:
        self.drivers += 1
        told = {
            "master": self.master,
            "fates": [fate.told() for fate in left],
            "options": {
                "kafka.bootstrap.servers": self.place.bootstrap,
                "group": GROUP,
                "subscribe": TOPIC,
                "settle": self.settle,
                "maxRecordsPerTrigger": "1500",
                "minPartitions": "2",
                "maxWaitMs": "200",
                **self.options,
            },
        }
        said = self.folder / f"driver-{self.drivers}.log"
        with said.open("wb") as out:
            done = subprocess.run(
                [sys.executable, "-m", "tests.spark.real_storm.driver", str(self.folder), json.dumps(told)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={
                    **environment(),
                    "KSHARE_STORM": self.mark,
                    "SPARK_WORKER_DIR": str(self.folder / "work"),
                },
                timeout=_DRIVER_S,
                check=False,
            )
        if done.returncode not in (0, -signal.SIGKILL):
            tail = said.read_text(encoding="utf-8", errors="replace")[-2000:]
            self.ledger.report("failed", why=f"a driver ended by {done.returncode}: {tail}")

    # --- running beside it

    @contextmanager
    def _feeding(self, crashes: int) -> Iterator[None]:
        """Produce records as long as there are fates ahead, and then the rest of the total."""
        stop = Event()

        def feed() -> None:
            produced = 0
            while not stop.wait(0.02):
                is_over = len({entry["number"] for entry in self.ledger.read("crash")}) >= crashes
                if is_over and produced >= self.total:
                    (self.folder / "enough").touch()
                    return
                if is_over or produced - self._done() < _BACKLOG:
                    self.place.produce(TOPIC, produced // _BATCH % self.partitions, _BATCH)
                    produced += _BATCH

        with _thread(feed, stop):
            yield

    def _done(self) -> int:
        written = sum(int(entry["rows"]) for entry in self.ledger.read("written"))
        return written + len(self.company.done)

    @contextmanager
    def _striking(self, crashes: int) -> Iterator[None]:
        stop = Event()

        def strike() -> None:
            while not stop.wait(self.random.uniform(*_BETWEEN_STRIKES_S)):
                if len({entry["number"] for entry in self.ledger.read("crash")}) >= crashes:
                    return
                self.ledger.report("strike")
                node = self.place.strike(self.random)
                self.ledger.report("struck", node=node)

        with _thread(strike, stop):
            yield

    # --- remaining processes

    def _processes(self) -> list[int]:
        """All descendants of our drivers."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                with suppress(OSError):
                    if self.mark.encode() in (folder / "environ").read_bytes():
                        found.append(int(folder.name))
        return found

    def _see_that_all_are_gone(self) -> None:
        deadline = time.monotonic() + _GONE_S
        while left := self._processes():
            if time.monotonic() > deadline:
                self.ledger.report("failed", why=f"processes are left: {left}")
                return
            time.sleep(0.2)

    def _kill_what_is_left(self) -> None:
        """Kill our processes if the storm itself failed."""
        if self.ledger.read("drained"):
            return
        for pid in self._processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def _thread(function: object, stop: Event) -> Iterator[None]:
    assert callable(function)
    thread = Thread(target=function)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
