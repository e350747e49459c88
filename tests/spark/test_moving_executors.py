"""Dynamic allocation: executors come and go between micro-batches.

Speculation can't be tested on one machine: Spark never starts a second attempt on the host of the first one.
`tests/spark/sink/test_once_writer.py` runs two attempts of a task at once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from pyspark.sql import SparkSession

from kshare.testing import Broker
from tests.helpers.committed import committed
from tests.spark.queries import Rig
from tools.spark import environment

RECORDS = 300
"""For each of two partitions, and each of two runs."""


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("settle", ["sink", "journal"])
def test_executors_come_and_go(orders_broker: Broker, tmp_path: Path, settle: str) -> None:
    rig = Rig(cast(SparkSession, None), orders_broker, tmp_path)
    moved = f"{rig.topic}-moved"
    orders_broker.create_topic(moved, 2)
    brokers = {"kafka.bootstrap.servers": orders_broker.bootstrap}
    # With dynamic allocation, the number of cores is unknown.
    source = {**rig.options(), "settle": settle, "maxRecordsPerTrigger": "200", "minPartitions": "4"}
    told = {"source": source, "sink": {**brokers, "topic": moved, "exactlyOnceTopic": f"{rig.topic}-markers"}}
    fill(rig, 0)
    command = [sys.executable, "-m", "tests.spark.moving_driver", str(tmp_path), json.dumps(told)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as driver:
        try:
            assert says(driver) == {"left": 0}
            fill(rig, 1)
            response(driver)
            assert says(driver) == {"left": 0}
            response(driver)
            found = says(driver)
        finally:
            driver.kill()
    values = Counter(anyio.run(committed, orders_broker.bootstrap, moved))
    assert len(values) == 4 * RECORDS
    assert set(values.values()) == {1}
    assert rig.lag() == 0
    assert found["most"] >= 2


def fill(rig: Rig, run: int) -> None:
    for first in range(0, RECORDS, 50):
        for partition in range(2):
            values = [b"%d/%d/%d" % (run, partition, number) for number in range(first, first + 50)]
            rig.broker.produce(rig.topic, values, partition=partition)


def says(driver: subprocess.Popen[str]) -> dict[str, Any]:
    assert driver.stdout is not None
    found: dict[str, Any] = json.loads(driver.stdout.readline())
    return found


def response(driver: subprocess.Popen[str]) -> None:
    assert driver.stdin is not None
    driver.stdin.write("\n")
    driver.stdin.flush()
