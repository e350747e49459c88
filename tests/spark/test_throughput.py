"""Ten minutes at 100 MB of records a second through three brokers, with a journal; what it costs the driver.

The figures are in docs/reports/spark-throughput.md. `SECONDS` shortens it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.queries import eventually, progress, started
from tools.kafka.cluster import Cluster
from tools.kafka.jars import install

RELEASE, NODES, PARTITIONS = "4.3.1", 3, 12
SIZE, MB_A_SECOND = 10_000, 105
SECONDS = int(os.environ.get("SECONDS", "600"))
REPORT = Path(__file__).resolve().parents[2] / "docs" / "reports" / "spark-throughput.md"
TOPIC = GROUP = "large"

LOAD = """
import os, sys, time
from confluent_kafka import Producer
bootstrap, topic, size, a_second, seconds = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
producer = Producer({
    "bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 1000000, "queue.buffering.max.kbytes": 200000,
    "log_level": 0,
})
pieces = [os.urandom(size) for _ in range(100)]  # can't be compressed, and nobody tries to
begun, sent = time.monotonic(), 0
while (elapsed := time.monotonic() - begun) < seconds:
    while sent < elapsed * a_second:
        try:
            producer.produce(topic, pieces[sent % 100])
            sent += 1
        except BufferError:
            producer.poll(0.01)
    producer.poll(0.005)
producer.flush()
print(sent)
"""


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def runner_of(jvm_pid: int) -> int:
    """The process id of the query's runner, a child of the JVM."""
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            parent = (folder / "stat").read_text(encoding="ascii").rpartition(")")[2].split()[1]
            if int(parent) == jvm_pid and b"streaming_source_runner" in (folder / "cmdline").read_bytes():
                return int(folder.name)
    raise AssertionError("the query has no runner")


@pytest.mark.long
@pytest.mark.java
@pytest.mark.kafka
@pytest.mark.timeout(2400)
def test_a_hundred_megabytes_a_second(spark: SparkSession, jvm_pid: int, tmp_path: Path) -> None:
    install(RELEASE)
    settings = {"log.retention.check.interval.ms": "10000"}
    with Cluster(RELEASE, NODES, settings=settings, is_optimised=True) as cluster:
        keep = {"retention.bytes": str(1 << 30), "segment.bytes": str(64 << 20)}
        cluster.create_topic(TOPIC, PARTITIONS, replicas=1, settings=keep)
        cluster.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        frame = (
            spark.readStream.format("kshare")
            .option("kafka.bootstrap.servers", cluster.bootstrap)
            .options(group=GROUP, subscribe=TOPIC, settle="journal")
            .load()
        )
        query = started(
            frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        )
        eventually(lambda: query.lastProgress is not None, "the query is running")
        runner = runner_of(jvm_pid)
        before, begun = cpu_seconds(runner), time.monotonic()
        words = [cluster.bootstrap, TOPIC, SIZE, MB_A_SECOND * 1_000_000 // SIZE, SECONDS]
        load = subprocess.run(
            [sys.executable, "-c", LOAD, *map(str, words)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=SECONDS + 300,
        )
        produced_s = time.monotonic() - begun
        sent = int(load.stdout)
        eventually(lambda: progress(query).get("emitted", 0) >= sent, "all rows are emitted", patience=300)
        elapsed = time.monotonic() - begun
        spent = cpu_seconds(runner) - before
        told = progress(query)
        query.stop()
    write(sent, produced_s, elapsed, spent, told)
    assert told["leasesLost"] == 0
    assert told["emitted"] == sent


def write(sent: int, produced_s: float, elapsed: float, spent: float, told: Any) -> None:
    rows = int(told["emitted"])
    megabytes = sent * SIZE / 1e6
    lines = [
        "# Spark: 100 MB a second",
        "",
        "Written by `tests/spark/test_throughput.py --long`. Three brokers of Kafka 4.3.1, 12 partitions with one",
        "replica (with three, these two cores write 73 MB/s), records of 10,000 random bytes, `settle=journal` in a",
        "topic, default limits on locks, `local[2]`, a sink that discards rows. Producer, brokers and Spark share two",
        "cores.",
        "",
        "| | |",
        "|---|---|",
        f"| produced | {sent:,} records, {megabytes:,.0f} MB in {produced_s:,.0f} s: "
        f"{megabytes / produced_s:,.1f} MB/s |",
        f"| processed | {rows:,} rows in {elapsed:,.0f} s: {rows / elapsed:,.0f} rows/s, "
        f"{megabytes / elapsed:,.1f} MB/s |",
        f"| received by the driver | {megabytes / elapsed:,.1f} MB/s and protocol overhead: each byte once |",
        f"| the runner's CPU | {spent:,.1f} s: {100 * spent / elapsed:.1f} % of a core, "
        f"{1000 * spent / megabytes:.3f} ms a MB, {1e6 * spent / rows:.2f} us a record |",
        f"| leases lost, sessions ended | {told['leasesLost']}, {told['sessionsEnded']} |",
        f"| redelivered | {told['redelivered']} |",
        "",
    ]
    REPORT.write_text("\n".join(lines), encoding="utf-8")
