"""`format("kshare-storm")`: the real source, plus a kill at the chosen step of the chosen batch.

Runs in the query's runner and in the executors' workers. The additions don't affect decisions about records: they only
record what happened, kill processes, and fail tasks.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from unittest import mock

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from kshare.spark.driver.decisions import Decisions
from kshare.spark.driver.offset_sets import PartitionRange
from kshare.spark.journal.journal import Journal
from kshare.spark.options import ReadOptions
from kshare.spark.source import KshareDataSource, ShareStreamReader
from kshare.spark.splitting import RangePartition
from kshare.state.lease import TopicIdPartition
from kshare.state.session import AckRange
from tests.spark.real_storm.fates import Fate, Ledger, Step, Victim

if TYPE_CHECKING:
    import pyarrow as pa

    from kshare.spark.driver.runner import Runner

TASK_FAULTS = 0.08
"""The share of tasks that fail in their first attempt."""


class StormSource(KshareDataSource):
    @classmethod
    def name(cls) -> str:
        return "kshare-storm"

    def schema(self) -> StructType:
        self._part()
        return super().schema()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        told = self._part()
        return StormReader(ReadOptions.parse(dict(self.options), is_streaming=True), told)

    def _part(self) -> dict[str, Any]:
        """Take out the storm's option, because the source refuses unknown options."""
        if "storm" in self.options:
            self._told: dict[str, Any] = json.loads(self.options.pop("storm"))
        return self._told


@dataclass
class StormPartition(RangePartition):
    """`fault`: what happens to the task: raise, always, kill, daemon, executor, or empty for nothing."""

    fault: str = ""


class StormReader(ShareStreamReader):
    def __init__(self, options: ReadOptions, told: dict[str, Any]) -> None:
        super().__init__(options)
        self._told = told

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_told": self._told}

    # --- in the runner

    def _running(self) -> Runner:
        if self._runner is None:
            self._hand = Hand(Path(self._told["folder"]), Fate.of(self._told["fate"]))
            (self._hand.folder / "runner").write_text(str(os.getpid()), encoding="ascii")
            self._hand.watch(super()._running())
        return super()._running()

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        self._running()
        if start is not None and start["batch"] > 0:
            self._hand.at("committed")
        end = super().latestOffset(start, limit)
        if end != start:
            self._hand.batches += 1
            self._hand.at("planned")
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._running()
        if start == end:
            return super().partitions(start, end)
        self._hand.ledger.report("logged", acquired=end["acquired"], starts=end.get("starts", {}))
        self._hand.at("logged")
        found = []
        for part in super().partitions(start, end):
            assert isinstance(part, RangePartition)
            found.append(
                StormPartition(part.ranges, fault=self._hand.task_fault(self._told["has_executors"]))
            )
        return found

    # --- in a worker

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, StormPartition)
        context = TaskContext.get()
        attempt = 0 if context is None else context.attemptNumber()
        fault = partition.fault if attempt == 0 or partition.fault == "always" else ""
        for number, rows in enumerate(super().read(partition)):
            if number == 0 and fault:
                self._fail(fault)
            yield rows

    def _fail(self, fault: str) -> None:
        Ledger(Path(self._told["folder"])).report("task", fault=fault)
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault == "daemon":
            os.kill(os.getppid(), signal.SIGKILL)
        elif fault == "executor":
            os.kill(parent(os.getppid()), signal.SIGKILL)
        raise StormError(f"a task fails: {fault}")


class StormError(Exception):
    """An intended failure."""


class Hand:
    """Causes the faults in the runner."""

    def __init__(self, folder: Path, fate: Fate) -> None:
        self.folder, self.fate = folder, fate
        self.ledger = Ledger(folder)
        self.batches = 0
        self._random = Random(fate.seed)
        self._has_struck = False

    def at(self, step: Step) -> None:
        if self.is_due(step):
            strike(self.folder, self.fate)

    def is_due(self, step: Step) -> bool:
        """Whether to strike at this step. True only once."""
        if self._has_struck or self.fate.step != step or self.batches < self.fate.after:
            return False
        self._has_struck = True
        return True

    def task_fault(self, has_executors: bool) -> str:
        if self.fate.victim == "task" and self.batches >= self.fate.after and not self._has_struck:
            self._has_struck = True
            self.ledger.report("crash", **self.fate.told())
            return "always"
        if self._random.random() > TASK_FAULTS or self.fate.step is None:
            return ""
        kinds = ["raise", "raise", "kill", "kill", "daemon", *(["executor"] if has_executors else [])]
        return self._random.choice(kinds)

    def watch(self, runner: Runner) -> None:
        """Patch the member, since acceptances are sent and confirmed outside of Spark's calls."""
        holdings = runner._member._holdings
        custody = holdings.custody
        apply, on_confirmed, confirmed = holdings.apply, holdings.on_confirmed, custody.confirmed

        def leaving(decisions: Decisions) -> None:
            apply(decisions)
            if decisions.accept and self.is_due("asking"):
                threading.Timer(0.0005 * (self.fate.seed % 20), strike, (self.folder, self.fate)).start()

        def responded(partition: TopicIdPartition, ranges: Sequence[AckRange]) -> None:
            if ranges:
                self.at("answering")
            on_confirmed(partition, ranges)

        def known(span: PartitionRange) -> None:
            self.ledger.report("confirmed", partition=span.partition[1], first=span.first, last=span.last)
            confirmed(span)

        append = Journal.append

        async def watched(journal: Journal, *arguments: Any) -> None:
            if self.is_due("appending"):
                threading.Timer(0.0005 * (self.fate.seed % 20), strike, (self.folder, self.fate)).start()
            await append(journal, *arguments)
            self.at("appended")

        mock.patch.object(Journal, "append", watched).start()
        mock.patch.object(holdings, "apply", leaving).start()
        mock.patch.object(holdings, "on_confirmed", responded).start()
        mock.patch.object(custody, "confirmed", known).start()


def strike(folder: Path, fate: Fate) -> None:
    """Kill the victims. If this process is one of them, it is the last."""
    Ledger(folder).report("crash", **fate.told())
    doomed = [pid for pid in _pids(folder, fate.victim) if pid != os.getpid()]
    for pid in doomed:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if os.getpid() in _pids(folder, fate.victim):
        os.kill(os.getpid(), signal.SIGKILL)


def _pids(folder: Path, victim: Victim) -> list[int]:
    found = []
    if victim in ("runner", "both"):
        found.append(int((folder / "runner").read_text(encoding="ascii")))
    if victim in ("driver", "both"):
        found += map(int, (folder / "driver").read_text(encoding="ascii").split())
    return found


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])
