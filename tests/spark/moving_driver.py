"""Runs a stream into a topic on a cluster that speculates, and whose executors come and go.

    python -m tests.spark.moving_driver FOLDER '{"source": {…}, "sink": {…}}'

Runs the query until nothing is left, waits until all executors are gone, and prints a line; runs it again when it gets
one. Then prints how many executors there were, and which attempts of tasks.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from tests.spark.queries import started
from tools.spark import session

MASTER = "local-cluster[2,1,1024]"
SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.25",
    "spark.speculation.multiplier": "1.1",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "3s",
}
_DEADLINE_S = 240.0
_SLOW_S = 5.0


def main() -> None:
    folder, told = Path(sys.argv[1]), json.loads(sys.argv[2])
    attempts = folder / "attempts"

    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The first attempt of one task is slow, so that Spark starts a second one beside it."""
        task = TaskContext.get()
        assert task is not None
        with attempts.open("a", encoding="ascii") as file:
            file.write(f"{task.attemptNumber()}\n")
        yield from batches
        if (task.partitionId(), task.attemptNumber()) == (0, 0):
            time.sleep(_SLOW_S)

    spark = session(MASTER, SETTINGS)
    frame = spark.readStream.format("kshare").options(**told["source"]).load()
    writer = (
        frame.selectExpr("value")
        .mapInArrow(slowly, "value BINARY")
        .writeStream.format("kshare")
        .options(**told["sink"])
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
    )
    most = 0
    for _ in range(2):
        query = started(writer)
        deadline = time.monotonic() + _DEADLINE_S
        while query.isActive and time.monotonic() < deadline:
            most = max(most, executors(spark))
            time.sleep(0.1)
        query.stop()
        while executors(spark) and time.monotonic() < deadline:
            time.sleep(0.1)
        say({"left": executors(spark)})
        sys.stdin.readline()
    say({"most": most, "attempts": [*map(int, attempts.read_text("ascii").split())]})
    spark.stop()


def say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def executors(spark: SparkSession) -> int:
    """How many there are now, besides the driver."""
    status = spark.sparkContext._jsc.sc().getExecutorMemoryStatus()
    return int(status.size()) - 1


if __name__ == "__main__":
    main()
