"""A driver that starts and stops its query on command: python -m tests.spark.restarting_driver FOLDER OPTIONS

Each line of input is a command, and is answered with a line of JSON: `start` (or `start 10 seconds`, the trigger
interval) or `stop`. While the file FOLDER/hold exists, the sink doesn't return from a batch that it has written.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.files import FileSink
from tests.spark.queries import started
from tools.spark import session


class Sink:
    def __init__(self, folder: Path) -> None:
        self.files = FileSink(folder / "sink")
        self.hold = folder / "hold"

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self.files(frame, batch)
        while self.hold.exists():
            time.sleep(0.02)


def main() -> None:
    folder, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    spark = session()
    query: StreamingQuery | None = None
    response({"pyspark": pyspark.__version__})
    for line in sys.stdin:
        command, _, every = line.strip().partition(" ")
        if command == "start":
            frame = spark.readStream.format("kshare").options(**options).load()
            writer = frame.writeStream.foreachBatch(Sink(folder)).trigger(processingTime=every or "0 seconds")
            query = started(writer.option("checkpointLocation", str(folder / "checkpoint")))
        elif query is not None:
            query.stop()
        response({"error": str((query and query.exception()) or "")})
    spark.stop()


def response(said: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
