"""A driver of a real Spark in a storm, as a process that can be killed. It runs the query repeatedly.

    python -m tests.spark.real_storm.driver FOLDER '{"bootstrap": …, "master": "local[2,3]", "fates": [ … ]}'

The sink is idempotent by batch id: a folder of Parquet files for each batch, renamed when it is complete.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.real_storm.fates import SINK_STEPS, Fate, Ledger, Step
from tests.spark.real_storm.sink import rows_of
from tests.spark.real_storm.source import StormError, StormSource, strike
from tools.spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_LIFE_S, _DRAIN_S = 150, 300
_TRIES = 4
"""How often a run of the query is repeated that didn't end as planned."""
_STARTS = 20
_LATE = "failed to connect back"
"""Spark gives a Python process ten seconds to start. On a busy machine, that isn't enough."""


class Driver:
    def __init__(self, folder: Path, told: dict[str, Any]) -> None:
        self.folder, self.told = folder, told
        self.ledger = Ledger(folder)
        self.sink = folder / "sink"
        self.spark = self._session()
        jvm = self.spark.sparkContext._jvm
        assert jvm is not None
        java: Any = jvm.java.lang.ProcessHandle.current().pid()
        (folder / "driver").write_text(f"{java} {os.getpid()}", encoding="ascii")
        self.spark.dataSource.register(StormSource)
        self.fate = Fate(0)
        self.batches = 0

    def run(self) -> None:
        for told in self.told["fates"]:
            self.fate = Fate.of(told)
            if self.fate.step is None:
                self._wait_for_enough()
            tries = 0
            for _ in range(_STARTS):
                why = self._live()
                if self._is_fulfilled():
                    break
                tries += _LATE not in why
                if tries == _TRIES:
                    break
            if not self._is_fulfilled():
                self.ledger.report("failed", why=f"the query never reached {self.fate}")
                return
        self.spark.stop()

    def _session(self) -> SparkSession:
        quick = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # no run is long enough for better code to pay off
        settings = {
            "spark.driver.extraJavaOptions": quick,
            "spark.executor.extraJavaOptions": quick,
            "spark.local.dir": str(self.folder / "local"),
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "spark.deploy.maxExecutorRetries": "-1",
        }
        return session(self.told["master"], settings, name="storm")

    def _live(self) -> str:
        """Run the query until it ends. Returns the error that has ended it."""
        self.batches = 0
        self.ledger.report("life", fate=self.fate.number)
        is_last = self.fate.step is None
        query = self._start(is_last=is_last)
        try:
            if not query.awaitTermination(_DRAIN_S if is_last else _LIFE_S):
                self.ledger.report("idle", status=query.status["message"], fate=self.fate.number)
                query.stop()
            else:
                self.ledger.report("drained")
        except Exception as error:  # anything that ends the query
            self.ledger.report("ended", why=_sentence(error), fate=self.fate.number)
            return str(error)
        return ""

    def _start(self, *, is_last: bool) -> StreamingQuery:
        told = {
            "folder": str(self.folder),
            "fate": self.fate.told(),
            "has_executors": self.told["master"].startswith("local-cluster"),
        }
        reader = self.spark.readStream.format("kshare-storm").option("storm", json.dumps(told))
        for name, value in self.told["options"].items():
            reader = reader.option(name, value)
        writer = reader.load().writeStream.foreachBatch(self._write)
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        trigger: dict[str, Any] = {"availableNow": True} if is_last else {"processingTime": "0 seconds"}
        return writer.trigger(**trigger).start()

    def _write(self, frame: DataFrame, batch: int) -> None:
        partial, final = self.sink / f"{batch}-{uuid.uuid4().hex}", self.sink / str(batch)
        frame.select("partition", "offset").write.parquet(str(partial))
        self._at("read")
        if not final.exists():
            partial.rename(final)
            self.ledger.report("written", batch=batch, rows=len(rows_of(final)))
        elif sorted(rows_of(final)) != sorted(rows_of(partial)):
            self.ledger.report("failed", why=f"the replay of batch {batch} yields other rows")
        self._at("written")
        self.batches += 1

    def _at(self, step: Step) -> None:
        fate = self.fate
        if fate.step != step or step not in SINK_STEPS or self.batches < fate.after or self._is_fulfilled():
            return
        if fate.victim == "sink":
            self.ledger.report("crash", **fate.told())
            raise StormError(f"the sink fails: {step}")
        if fate.victim != "task":
            strike(self.folder, fate)

    def _is_fulfilled(self) -> bool:
        if self.fate.step is None:
            return bool(self.ledger.read("drained"))
        return any(entry["number"] == self.fate.number for entry in self.ledger.read("crash"))

    def _wait_for_enough(self) -> None:
        deadline = time.monotonic() + _DRAIN_S
        while not (self.folder / "enough").exists():
            if time.monotonic() > deadline:
                raise TimeoutError("the file 'enough' wasn't created in time")
            time.sleep(0.1)


def _sentence(error: Exception) -> str:
    """The last line of a traceback that names an exception."""
    lines = [line.strip() for line in str(error).splitlines() if "Error" in line or "Exception" in line]
    return (lines[-1] if lines else str(error).strip().partition("\n")[0])[:300]


if __name__ == "__main__":
    Driver(Path(sys.argv[1]), json.loads(sys.argv[2])).run()
