"""A query's progress in Spark's metrics system, as Prometheus reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kshare.errors import ConfigError
from kshare.spark import publish_metrics
from kshare.spark.metrics import readings
from kshare.testing import Broker
from tests.spark.shared_topic import SharedTopic
from tools.kafka.ports import free_ports
from tools.spark import environment

REPORT = {"held": 5, "lockUse": 0.25, "lag": None, "skippedDuplicates": 0}


def test_readings_of_a_progress() -> None:
    progress: dict[str, Any] = {
        "name": "packing",
        "batchId": 3,
        "numInputRows": 10,
        "durationMs": {"triggerExecution": 120},
        "sources": [{"latestOffset": REPORT}, {"latestOffset": {"0": 17}}, {"latestOffset": None}],
    }
    common = {"batchId": 3, "numInputRows": 10, "triggerExecutionMs": 120}
    assert readings(progress) == {**common, "held": 5, "lockUse": 0.25, "skippedDuplicates": 0}
    progress["sources"] = [{"latestOffset": REPORT}] * 2
    assert readings(progress) == {
        **common,
        **{
            f"source{at}.{name}": value
            for at in range(2)
            for name, value in REPORT.items()
            if value is not None
        },
    }
    assert readings({**progress, "sources": [{"latestOffset": {"0": 17}}]}) == {}


def test_connect_is_refused(connect_spark: SparkSession) -> None:
    with pytest.raises(
        ConfigError, match=r"can't access Spark's metrics system\. Read query\.lastProgress instead"
    ):
        publish_metrics(connect_spark)


@pytest.mark.spark
def test_prometheus_reads_the_gauges(orders_broker: Broker, tmp_path: Path) -> None:
    topic = SharedTopic(orders_broker)
    topic.produce(100)
    port = str(free_ports(1)[0])
    command = [
        sys.executable,
        "-m",
        "tests.spark.metrics_driver",
        port,
        str(tmp_path),
        json.dumps(topic.options()),
    ]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    values = dict(line.rsplit(" ", 1) for line in found["running"].splitlines())
    by_name = {name.partition("{")[0]: float(value) for name, value in values.items()}
    assert by_name["metrics_orders_driver_AccumulatorSource_kshare_packing_emitted_Number"] == 100
    assert by_name["metrics_orders_driver_AccumulatorSource_kshare_packing_numInputRows_Number"] >= 0
    assert all(line.endswith(" NaN") for line in found["ended"].splitlines())
