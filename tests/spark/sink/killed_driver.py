"""Runs a stream from a share group to a topic, again and again: python -m tests.spark.sink.killed_driver FOLDER GIVEN

GIVEN is JSON: the options of the source and of the sink. It is killed by its test.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress

from pyspark.errors import StreamingQueryException

from tests.spark.queries import started
from tools.spark import session

COLUMNS = (
    "key",
    "upper(CAST(value AS STRING)) AS value",
    "array(named_struct('key', 'from', 'value', CAST(concat_ws('/', topic, partition, offset) AS BINARY))) AS headers",
)


def main() -> None:
    folder, given = sys.argv[1], json.loads(sys.argv[2])
    spark = session("local[2,3]")
    frame = spark.readStream.format("kshare").options(**given["source"]).load().selectExpr(*COLUMNS)
    writer = frame.writeStream.format("kshare").options(**given["sink"]).option("checkpointLocation", folder)
    while True:
        query = started(writer.trigger(processingTime="0 seconds"))
        with suppress(StreamingQueryException):  # its runner was killed
            query.awaitTermination()


if __name__ == "__main__":
    main()
