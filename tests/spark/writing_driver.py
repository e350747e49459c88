"""Runs queries from a share group to sinks, which are interrupted and restarted from the checkpoint.

    python -m tests.spark.writing_driver '{"folder": …, "settings": …, "options": …, "examples": […]}'

Prints a line of JSON: what each sink finally contains, and how many micro-batches there were before the stop.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.queries import started
from tools.spark import session

_DEADLINE_S = 150
COLUMNS = ("upper(CAST(value AS STRING)) AS value", "topic", "partition", "offset")
"""The transformation."""
FORWARDED = (
    "upper(CAST(value AS STRING)) AS value",
    "array(named_struct('key', 'from', 'value', CAST(concat_ws('/', partition, offset) AS BINARY))) AS headers",
)


def main() -> None:
    told = json.loads(sys.argv[1])
    spark = session(settings=told["settings"])
    folder, found = Path(told["folder"]), {}
    for sink in told["sinks"]:
        batches = stopped_under_way(spark, sink, told["options"], folder)
        rows = [] if sink == "kafka" else spark.read.format(sink).load(str(folder / sink)).collect()
        found[sink] = {"batches": batches, "rows": [[row.partition, row.offset, row.value] for row in rows]}
    names: dict[str, Any] = {"spark": spark, "folder": str(folder)}
    for example in told["examples"]:
        exec(example, names)
    for query in spark.streams.active:
        query.awaitTermination(_DEADLINE_S)
    sys.stdout.write(json.dumps({"spark": spark.version, "sinks": found}) + "\n")
    sys.stdout.flush()
    spark.stop()


def stopped_under_way(spark: SparkSession, sink: str, options: Mapping[str, Any], folder: Path) -> int:
    """Run a query, stop it, and resume it. Returns how many micro-batches there were when it was stopped."""
    given = {**options, "group": f"{options['group']}-{sink}", "maxRecordsPerTrigger": "50"}
    frame = spark.readStream.format("kshare").options(**given).load()
    frame = frame.selectExpr(*(FORWARDED if sink == "kafka" else COLUMNS))
    writer = frame.writeStream.format(sink).option("checkpointLocation", str(folder / f"{sink}-checkpoint"))
    if sink == "kafka":
        brokers = options["kafka.bootstrap.servers"]
        writer = writer.options(
            **{"kafka.bootstrap.servers": brokers, "topic": "forwarded", "includeHeaders": "true"}
        )
    else:
        writer = writer.option("path", str(folder / sink))
    query = started(writer)
    log = folder / f"{sink}-checkpoint" / "commits"
    deadline = time.monotonic() + _DEADLINE_S
    while len(batches := [*log.glob("[0-9]*")]) < 2 and query.isActive and time.monotonic() < deadline:
        time.sleep(0.02)
    query.stop()
    again = started(writer.trigger(availableNow=True))
    again.awaitTermination(_DEADLINE_S)
    return len(batches)


if __name__ == "__main__":
    main()
