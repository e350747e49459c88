"""Real PySpark 4.0 and 4.1, stopped and killed repeatedly: each row is in the sink once.

Batches are committed a whole trigger interval before their acceptances are sent.
"""

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
from tests.spark.files import FileSink
from tests.spark.processes import runners
from tests.spark.queries import Rig, eventually
from tools.older_spark import TESTED_RELEASES, installed
from tools.spark import environment

OLDEST, *others = TESTED_RELEASES
RARELY = "start 10 seconds"
"""The next trigger is seconds after a batch is committed, so that a stop happens in between."""


class Restarts:
    """A query whose checkpoint and sink are used by several drivers in turn."""

    def __init__(self, rig: Rig, folder: Path, release: str) -> None:
        self.rig, self.folder, self.release = rig, folder, release
        self.sink = FileSink(folder / "sink")
        self.produced = 0
        self.process: subprocess.Popen[str]

    @contextmanager
    def driver(self) -> Iterator[None]:
        """Run a driver. At the end, kill it with its JVM and its runner."""
        variables = environment()
        path = f"{installed(self.release)}:{variables['PYTHONPATH']}"
        command = [sys.executable, "-m", "tests.spark.restarting_driver", str(self.folder)]
        with (
            (self.folder / "driver.log").open("ab") as said,
            subprocess.Popen(
                [*command, json.dumps({**self.rig.options(), "maxWaitMs": "5000"})],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                env={**variables, "PYTHONPATH": path},
                start_new_session=True,
            ) as self.process,
        ):
            try:
                assert self.response() == {"pyspark": self.release}
                yield
            finally:
                os.killpg(self.process.pid, signal.SIGKILL)

    def response(self) -> dict[str, str]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (self.folder / "driver.log").read_text()[-2000:]
        found: dict[str, str] = json.loads(line)
        return found

    def report(self, command: str) -> None:
        assert self.ask(command) == {"error": ""}

    def ask(self, command: str) -> dict[str, str]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return self.response()

    def stop(self) -> None:
        self.report("stop")

    def kill_runner(self) -> None:
        """Kill the runner, which can't leave the group then. Stop the query, unless a trigger without it has failed."""
        (runner,) = runners(self.process.pid)
        os.kill(runner, signal.SIGKILL)
        self.ask("stop")

    def produce(self) -> None:
        self.rig.produce(10)
        self.produced += 10

    def all_is_written(self) -> None:
        eventually(lambda: len(self.sink.written) >= self.produced, "all is written")

    def all_is_committed(self) -> None:
        self.all_is_written()
        commits, offsets = (self.folder / "checkpoint" / name for name in ("commits", "offsets"))
        eventually(lambda: names(commits) == names(offsets), "all is committed")

    def expect(self) -> None:
        assert sorted(self.sink.written) == [(0, at) for at in range(self.produced)]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name.isdecimal()}


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "release", [OLDEST, *(pytest.param(other, marks=pytest.mark.long) for other in others)]
)
def test_each_row_is_once_in_the_sink(orders_broker: Broker, tmp_path: Path, release: str) -> None:
    query = Restarts(Rig(cast(SparkSession, None), orders_broker, tmp_path), tmp_path, release)
    query.produce()
    with query.driver():
        for end in (query.stop, query.kill_runner, query.stop):
            query.report(RARELY)
            query.all_is_committed()
            end()
            query.expect()
            query.produce()
        (tmp_path / "hold").touch()
        query.report(RARELY)
        query.all_is_written()
    (tmp_path / "hold").unlink()
    query.produce()
    with query.driver():
        query.report("start")
        query.all_is_committed()
        eventually(lambda: query.rig.lag() == 0, "all is acknowledged")
    query.expect()
