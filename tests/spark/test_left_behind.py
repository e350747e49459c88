"""Queries that aren't stopped: their runners end and leave the group, however the driver ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from kshare.testing import Broker
from tests.spark.processes import ancestors, is_running, runners
from tests.spark.queries import Rig, eventually
from tools.spark import environment

ELSEWHERE = cast(SparkSession, None)
"""Spark runs in another process."""


@pytest.fixture(scope="module")
def patient_broker() -> Iterator[Broker]:
    """Its session timeout is longer than any test, so members that are gone have left explicitly."""
    hour = "3600000"
    settings = {"group.share.session.timeout.ms": hour, "group.share.max.session.timeout.ms": hour}
    with Broker(settings=settings) as broker:
        yield broker


@contextmanager
def driver(rig: Rig, folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.spark.careless_driver", str(folder), json.dumps(rig.options())]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment()
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def report(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def running(rig: Rig, process: subprocess.Popen[str]) -> int:
    """The runner of its query, once it has joined."""
    eventually(lambda: rig.members() == 1 or process.poll() is not None, "a member")
    (runner,) = runners(process.pid)
    return runner


def nothing_is_left(rig: Rig, runner: int) -> None:
    eventually(lambda: rig.members() == 0, "the group is left")
    eventually(lambda: not is_running(runner), "the runner has ended")


@pytest.mark.spark
def test_spark_stop_without_query_stop_and_then_sigterm(patient_broker: Broker, tmp_path: Path) -> None:
    rig = Rig(ELSEWHERE, patient_broker, tmp_path)
    with driver(rig, tmp_path) as process:
        runner = running(rig, process)
        report(process)
        nothing_is_left(rig, runner)
        assert process.poll() is None, "the driver has ended with its Spark session"
        report(process)
        runner = running(rig, process)
        process.terminate()
        process.wait(60)
        nothing_is_left(rig, runner)


@pytest.mark.spark
def test_a_driver_that_is_killed_with_its_jvm(patient_broker: Broker, tmp_path: Path) -> None:
    rig = Rig(ELSEWHERE, patient_broker, tmp_path)
    with driver(rig, tmp_path) as process:
        runner = running(rig, process)
        above = ancestors(runner)
        for pid in above[: above.index(process.pid) + 1]:
            os.kill(pid, signal.SIGKILL)
        nothing_is_left(rig, runner)
