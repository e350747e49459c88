"""Runs queries with an older PySpark: python -m tests.spark.older_driver FOLDER OPTIONS

Prints the results as a line of JSON: a batch query, a stream that runs until a line of input, and the triggers that
need PySpark 4.2.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
from pyspark.errors import StreamingQueryException

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
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    filtered = spark.read.format("kshare").options(**options).load().where("partition = 1 AND offset > 37")
    told["filtered"] = [(row.partition, row.offset) for row in filtered.collect()]
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
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main()
