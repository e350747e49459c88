"""Queries from a share group to Kafka, Parquet and Delta that are stopped and restarted lose nothing.

Sinks that identify micro-batches by their ids don't contain duplicates either. Uses Spark 4.2, since the jars of
Kafka's sink and Delta are for that release.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from kshare.testing import Broker
from tests.spark.guide import GUIDE, WITH_JARS
from tests.spark.queries import Rig
from tools.benches.spark_processes import ITS_JARS
from tools.kafka.jars import DELTA, SPARK_SOURCE, SPARK_SOURCE_RELEASE, install
from tools.older_spark import installed
from tools.spark import environment

RECORDS = 400
DELTA_JARS = ("delta-spark", "delta-storage", "delta-kernel", "antlr4")
WANTED = [(0, at) for at in range(RECORDS)] + [(1, at) for at in range(RECORDS)]


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_interrupted_queries_into_sinks_lose_nothing(orders_broker: Broker, tmp_path: Path) -> None:
    rig = Rig(cast(SparkSession, None), orders_broker, tmp_path)
    orders_broker.create_topic("forwarded", 2)
    fill(rig)
    told = run(rig, tmp_path)
    for sink in ("parquet", "delta"):
        rows = [(row[0], row[1]) for row in told["sinks"][sink]["rows"]]
        assert sorted(rows) == WANTED, sink
        assert {row[2] for row in told["sinks"][sink]["rows"]} == {"ORDER"}
    forwarded = orders_broker.records("forwarded")
    came_from = [bytes(record.headers[0][1] or b"") for record in forwarded]
    assert {tuple(map(int, place.split(b"/"))) for place in came_from} == set(WANTED)
    assert {bytes(record.value or b"") for record in forwarded} == {b"ORDER"}
    assert all(2 <= sink["batches"] < RECORDS // 50 for sink in told["sinks"].values()), (
        "a query wasn't interrupted"
    )


def fill(rig: Rig) -> None:
    for sink in ("kafka", "parquet", "delta"):
        rig.broker.set_group_config(f"{rig.group}-{sink}", {"share.auto.offset.reset": "earliest"})
    rig.broker.set_group_config("keeping", {"share.auto.offset.reset": "earliest"})
    for _ in range(RECORDS // 10):
        for partition in range(2):
            rig.broker.produce(rig.topic, [b"order"] * 10, partition=partition)


def run(rig: Rig, folder: Path) -> dict[str, Any]:
    jars = [
        str(jar)
        for name, mine in ((SPARK_SOURCE, ITS_JARS), (DELTA, DELTA_JARS))
        for jar in sorted(install(name).iterdir())
        if jar.name.startswith(mine)
    ]
    blocks = re.findall(
        r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    examples = [
        block.replace("localhost:9092", rig.broker.bootstrap).replace('"orders"', f'"{rig.topic}"')
        for block in blocks
        if any(jar in block for jar in WITH_JARS)
    ]
    told = {
        "folder": str(folder),
        "settings": {
            "spark.jars": ",".join(jars),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
        "options": rig.options(),
        "sinks": ["parquet", "kafka", "delta"],
        "examples": examples,
    }
    variables = environment()
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.writing_driver", json.dumps(told)],
        env={**variables, "PYTHONPATH": f"{installed(SPARK_SOURCE_RELEASE)}:{variables['PYTHONPATH']}"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["spark"] == SPARK_SOURCE_RELEASE
    return found
