"""Runs a stream into a topic on a cluster whose executors come and go.

    python -m tests.spark.moving_driver FOLDER '{"source": {…}, "sink": {…}}'

Runs the query until nothing is left, waits until all executors are gone, and prints a line; runs it again when it gets
one. Then prints how many executors there were.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.queries import started
from tools.spark import session

MASTER = "local-cluster[2,1,1024]"
SETTINGS = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "3s",
}
_DEADLINE_S = 240.0


def main() -> None:
    folder, told = Path(sys.argv[1]), json.loads(sys.argv[2])
    spark = session(MASTER, SETTINGS)
    frame = spark.readStream.format("kshare").options(**told["source"]).load()
    writer = (
        frame.selectExpr("value")
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
    say({"most": most})
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
