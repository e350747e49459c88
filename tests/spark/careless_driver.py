"""A driver that never stops its queries, so that a test can check what remains.

    python -m tests.spark.careless_driver FOLDER '{"kafka.bootstrap.servers": …}'

Starts a query. Each line of input makes it stop Spark, or start the next query in a new Spark session.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

from tests.spark.queries import started
from tools.spark import session


def main() -> None:
    folder, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    for number in itertools.count():
        spark = session()
        frame = spark.readStream.format("kshare").options(**options).load()
        checkpoint = str(folder / f"checkpoint-{number}")
        started(frame.writeStream.format("noop").option("checkpointLocation", checkpoint))
        sys.stdin.readline()
        spark.stop()
        sys.stdin.readline()


if __name__ == "__main__":
    main()
