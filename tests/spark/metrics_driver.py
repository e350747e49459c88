"""A query whose metrics are published: python -m tests.spark.metrics_driver PORT FOLDER OPTIONS

Prints what Spark's Prometheus servlet has while the query runs and after it has ended, as a line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from urllib.request import urlopen

from kshare.spark import publish_metrics
from tests.spark.queries import eventually, started
from tools.spark import session


def scraped(port: str) -> str:
    with urlopen(f"http://127.0.0.1:{port}/metrics/prometheus/", timeout=30) as response:
        text: str = response.read().decode()
        return "\n".join(line for line in text.splitlines() if "kshare_packing" in line)


def main() -> None:
    port, folder, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": port,
        "spark.metrics.conf.*.sink.prometheusServlet.class": "org.apache.spark.metrics.sink.PrometheusServlet",
        "spark.metrics.conf.*.sink.prometheusServlet.path": "/metrics/prometheus",
        "spark.metrics.namespace": "orders",
    }
    spark = session(settings=settings)
    publish_metrics(spark)
    stream = spark.readStream.format("kshare").options(**options).load().writeStream.format("noop")
    query = started(stream.queryName("packing").option("checkpointLocation", str(folder / "checkpoint")))
    eventually(lambda: not query.isActive or "_emitted_" in scraped(port), "the gauges are there")
    # Progress is published by another thread than the one that responds to requests.
    eventually(lambda: not query.isActive or "_emitted_Number" in scraped(port), "the gauges have values")
    running = scraped(port)
    query.stop()
    deadline = time.monotonic() + 60
    while (
        not all(line.endswith(" NaN") for line in scraped(port).splitlines()) and time.monotonic() < deadline
    ):
        time.sleep(0.05)
    sys.stdout.write(json.dumps({"running": running, "ended": scraped(port)}) + "\n")
    sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main()
