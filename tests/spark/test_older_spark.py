"""PySpark before 4.2, installed separately: continuous streams, batches and sinks work, other triggers are refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from kshare.testing import Broker
from tests.spark.files import FileSink
from tests.spark.queries import Rig, eventually
from tools.older_spark import TESTED_RELEASES, installed
from tools.spark import environment


@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("release", TESTED_RELEASES)
def test_an_older_spark(orders_broker: Broker, tmp_path: Path, release: str) -> None:
    rig = Rig(cast(SparkSession, None), orders_broker, tmp_path)
    orders_broker.set_group_config(f"{rig.group}-leasing", {"share.auto.offset.reset": "earliest"})
    orders_broker.create_topic(f"{rig.topic}-shipped")
    rig.produce(60)
    rig.produce(40, 1)
    variables = environment()
    path = f"{installed(release)}:{variables['PYTHONPATH']}"
    command = [sys.executable, "-m", "tests.spark.older_driver", str(tmp_path), json.dumps(rig.options())]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**variables, "PYTHONPATH": path},
    ) as driver:
        try:
            assert driver.stdin is not None
            assert driver.stdout is not None
            sink = FileSink(tmp_path / "stream-sink")
            eventually(lambda: len(sink.written) == 100 or driver.poll() is not None, "all is emitted")
            eventually(lambda: rig.lag() == 0, "all is acknowledged, though no batch comes after it")
            driver.stdin.write("\n")
            driver.stdin.flush()
            told = json.loads(driver.stdout.readline())
        finally:
            driver.kill()
    assert (told["pyspark"], told["backlog"], told["leased"]) == (release, 100, 100)
    both = sorted([*range(60), *range(40)])
    assert sorted(told["selected"]) == [[at, str(at)] for at in both]
    wanted = [[0, at] for at in range(60)] + [[1, at] for at in range(40)]
    assert sorted(told["stream"]["written"]) == wanted
    assert told["stream"]["error"] == ""
    shipped = orders_broker.records(f"{rig.topic}-shipped")
    assert sorted(record.value or b"" for record in shipped) == [b"0", b"1", b"2", b"3", b"4", b"a", b"b"]
    for trigger in ("availableNow", "once"):
        assert told[trigger]["written"] == []
        assert "or use PySpark 4.2 or newer" in told[trigger]["error"]
