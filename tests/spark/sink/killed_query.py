"""A stream from a share group to a topic whose processes are killed by SIGKILL, and what is in the topic afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Literal

import anyio

from tests.helpers.committed import records_in
from tests.spark.processes import ancestors, runners
from tests.spark.shared_topic import SharedTopic
from tools.spark import environment

Victim = Literal["driver", "runner", "worker"]
A_SEND = 10
"""Records in a producer's batch."""
PATIENCE_S = 600.0
"""A driver takes a minute to start on a busy machine, and Spark's retries take long."""


class KilledQuery:
    """The query, its checkpoint and its topics."""

    def __init__(self, topics: SharedTopic, folder: Path, sink: Mapping[str, str]) -> None:
        self.topics = topics
        self.shipped = f"{topics.topic}-shipped"
        self.checkpoint = folder / "checkpoint"
        self.log = folder / "driver.log"
        bootstrap = topics.broker.bootstrap
        self._given = {
            "source": {**topics.options(), "maxRecordsPerTrigger": "50"},
            "sink": {"kafka.bootstrap.servers": bootstrap, "topic": self.shipped, **sink},
        }
        self._process: subprocess.Popen[bytes]
        topics.broker.create_topic(self.shipped, 3)
        settings = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "10"}
        topics.broker.set_group_config(topics.group, settings)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run a driver, which may be replaced by others. Kills it at the end."""
        self._start()
        try:
            yield
        finally:
            self._kill_driver()

    def kill(self, victim: Victim, random: Random) -> None:
        """Kill a process shortly after the query has made progress."""
        batches = len(self.committed())
        deadline = time.monotonic() + PATIENCE_S
        while len(self.committed()) < batches + 2:
            assert time.monotonic() < deadline, f"no progress: {self.log.read_text()[-2000:]}"
            time.sleep(0.05)
        time.sleep(random.random() / 2)
        if victim == "driver":
            self._kill_driver()
            self._start()
            return
        found = runners(self._process.pid) if victim == "runner" else workers(self._process.pid)
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def committed(self) -> list[Path]:
        return [*(self.checkpoint / "commits").glob("[0-9]*")]

    def shipments(self) -> Counter[str]:
        """How often each record of the source is in the topic, for consumers with `read_committed`."""
        found = anyio.run(records_in, self.topics.broker.bootstrap, self.shipped)
        return Counter(bytes(record.headers[0][1] or b"").decode() for record in found)

    def _start(self) -> None:
        command = [sys.executable, "-m", "tests.spark.sink.killed_driver", str(self.checkpoint)]
        with self.log.open("ab") as said:
            self._process = subprocess.Popen(
                [*command, json.dumps(self._given)],
                stdout=said,
                stderr=said,
                env=environment(),
                start_new_session=True,
            )

    def _kill_driver(self) -> None:
        """With its JVM and workers, which are in its process group, and the runner, which isn't always."""
        others = [*runners(self._process.pid), *workers(self._process.pid)]
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pid in others:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def workers(driver: int) -> list[int]:
    """The Python workers that run tasks: children of Spark's daemon."""
    daemons = {pid: parents for pid, parents in _daemons() if driver in parents}
    return [pid for pid, parents in daemons.items() if parents[0] in daemons]


def _daemons() -> Iterator[tuple[int, list[int]]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                    parents = ancestors(int(folder.name))
                    if parents:
                        yield int(folder.name), parents
