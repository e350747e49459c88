"""A Spark session that reads a topic once for each line of input: requests and responses are lines of JSON.

Runs with any PySpark, so it needs nothing of kshare except the name of the format.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tools.benches.contenders.constant_source import ConstantSource
from tools.spark import session

_DEADLINE_S = 600.0
_POLL_S = 0.02
_SETTINGS = {"spark.sql.streaming.numRecentProgressUpdates": "100000"}


def view(spark: SparkSession, options: Mapping[str, Any]) -> dict[str, float]:
    """Read a batch DataFrame into a sink that drops it. The time includes planning."""
    started, spent = time.perf_counter(), _cpu_seconds()
    frame = spark.read.format(options["format"]).options(**options["options"]).load()
    frame.write.format("noop").mode("overwrite").save()
    result = {"seconds": time.perf_counter() - started, "cpu": _cpu_seconds() - spent}
    return {**result, "rows": frame.count() if options.get("counts") else 0}


def stream(spark: SparkSession, options: Mapping[str, Any]) -> dict[str, float]:
    """Run consecutive micro-batches until this many rows were processed.

    The first `warm_up` micro-batches aren't counted, since they compile code and start workers.
    """
    frame = spark.readStream.format(options["format"]).options(**options["options"]).load()
    query = frame.writeStream.format("noop").option("checkpointLocation", options["checkpoint"]).start()
    try:
        return _measure(query, options["rows"], options["warm_up"])
    finally:
        query.stop()


def _measure(query: StreamingQuery, rows: int, warm_up: int) -> dict[str, float]:
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        full = [progress for progress in query.recentProgress if progress["numInputRows"]][warm_up:]
        seen = list(itertools.accumulate(progress["numInputRows"] for progress in full))
        if len(full) > 1 and seen[-2] >= rows:
            break
        if time.monotonic() > deadline:
            raise TimeoutError(f"{seen[-1:]} of {rows} rows in time, {len(full)} micro-batches")
        time.sleep(_POLL_S)
    begin, end = (datetime.fromisoformat(full[at]["timestamp"]) for at in (0, -1))
    durations = sorted(progress["durationMs"]["triggerExecution"] for progress in full[:-1])
    return {
        "rows": seen[-2] / (end - begin).total_seconds(),
        "median rows": sorted(progress["numInputRows"] for progress in full[:-1])[len(durations) // 2],
        "median": durations[len(durations) // 2],
        "least": durations[0],
    }


def _cpu_seconds() -> float:
    """The CPU time of all running processes of this session: the JVM and its Python workers."""
    ticks = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                ticks += (int(fields[11]) + int(fields[12])) * (int(fields[3]) == os.getsid(0))
    return ticks / os.sysconf("SC_CLK_TCK")


RUNS: dict[str, Callable[[SparkSession, Mapping[str, Any]], dict[str, float]]] = {
    "view": view,
    "stream": stream,
}


def main() -> None:
    settings = dict(word.split("=", 1) for word in sys.argv[1:])
    spark = session("local[2]", {**_SETTINGS, **settings})
    spark.dataSource.register(ConstantSource)
    print(json.dumps({"spark": spark.version}), flush=True)
    for line in sys.stdin:
        options = json.loads(line)
        print(json.dumps(RUNS[options["run"]](spark, options)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
