"""Runs queries with an older PySpark: python -m tests.spark.older_driver FOLDER OPTIONS

Prints the results as a line of JSON, after it has written to a topic: a batch query, a stream that runs until a line of
input, and the triggers that need PySpark 4.2.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import kshare.spark
from tests.spark.files import FileSink
from tests.spark.queries import started
from tools.spark import session

TRIGGERS: dict[str, dict[str, Any]] = {
    "stream": {"processingTime": "0 seconds"},
    "availableNow": {"availableNow": True},
    "once": {"once": True},
}
_DEADLINE_S = 150


def main() -> None:
    folder, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    told: dict[str, Any] = {"pyspark": pyspark.__version__}
    spark = session()
    told["backlog"] = spark.read.format("kshare").options(**options).load().count()
    selected = spark.read.format("kshare").schema("offset LONG, value BINARY").options(**options).load()
    told["selected"] = sorted((row.offset, row.value.decode()) for row in selected.collect())
    leasing = {**options, "group": f"{options['group']}-leasing"}
    with kshare.spark.lease(spark, leasing) as lease:
        told["leased"] = lease.dataframe().count()
    for name, trigger in TRIGGERS.items():
        sink = FileSink(folder / f"{name}-sink")
        stream = spark.readStream.format("kshare").options(**options).load().writeStream.foreachBatch(sink)
        stream = stream.option("checkpointLocation", str(folder / name)).trigger(**trigger)
        query = started(stream)
        if name == "stream":
            sys.stdin.readline()
        else:
            with suppress(StreamingQueryException):  # it is reported below
                query.awaitTermination(_DEADLINE_S)
        query.stop()
        told[name] = {"written": sink.written, "error": str(query.exception() or "")}
    write(spark, folder, options)
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    spark.stop()


def write(spark: SparkSession, folder: Path, options: dict[str, str]) -> None:
    """Write a DataFrame, and a stream in transactions."""
    sink = {name: options[name] for name in options if name.startswith("kafka.")}
    sink["topic"] = f"{options['subscribe']}-shipped"
    frame = spark.range(5).selectExpr("CAST(id AS STRING) AS value")
    frame.write.format("kshare").options(**sink).mode("append").save()
    lines = folder / "lines"
    lines.mkdir()
    (lines / "one.txt").write_text("a\nb\n", encoding="utf-8")
    stream = spark.readStream.text(str(lines)).writeStream.format("kshare").options(**sink)
    stream = stream.option("exactlyOnceTopic", f"{sink['topic']}-batches")
    query = (
        stream.option("checkpointLocation", str(folder / "lines-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(_DEADLINE_S)


if __name__ == "__main__":
    main()
