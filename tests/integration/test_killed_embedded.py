"""The embedded broker with a data folder, killed repeatedly under load.

Records whose write was confirmed are never lost, and records whose acceptance was confirmed are never redelivered. The
kills happen at random times: while batches are written, fetches are parked and acknowledgements are in flight.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import cast

import anyio
import pytest

from tests.integration.reporting import say
from tests.integration.storm import Storm, storm_over
from tools.kafka import requests
from tools.kafka.cluster import Cluster
from tools.kafka.ports import free_ports

pytestmark = [pytest.mark.anyio]

WORKERS, RATE = 2, 1500.0
REPORT = Path(__file__).resolve().parents[2] / "docs" / "reports" / "killed-broker.md"
_STOP_S = 30.0


class Killable:
    """`kshare broker` in a separate process, with the interface of a cluster that a storm needs."""

    def __init__(self, folder: Path) -> None:
        self._address = ("127.0.0.1", free_ports(1)[0])
        self._command = [sys.executable, "-m", "kshare.cli", "broker", "--data-dir", str(folder)]
        self._command += ["--port", str(self._address[1])]
        self._process: subprocess.Popen[str] | None = None
        self.nodes = [self]

    @property
    def bootstrap(self) -> str:
        return f"{self._address[0]}:{self._address[1]}"

    def address(self) -> tuple[str, int]:
        return self._address

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith("listening")

    def kill(self) -> None:
        assert self._process is not None
        with self._process as process:
            process.kill()

    def kill_and_start(self) -> None:
        self.kill()
        self.start()

    def create_topic(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        requests.create_topic(self._address, name, partitions, 1, settings)

    def set_group_config(self, group: str, settings: Mapping[str, str]) -> None:
        requests.set_config(self._address, requests.Resource.GROUP, group, settings)


@contextmanager
def killable(folder: Path) -> Iterator[Killable]:
    program = Killable(folder)
    program.start()
    try:
        yield program
    finally:
        program.kill()


@pytest.mark.lengthy
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
async def test_kills_under_load_lose_nothing(
    tmp_path: Path, kills: int, capsys: pytest.CaptureFixture[str]
) -> None:
    random = Random(kills)
    with killable(tmp_path) as program:
        async with storm_over(cast("Cluster", program), WORKERS, RATE) as storm:
            for number in range(kills):
                before = len(storm.history.attempted)
                await storm.note(f"kill {number + 1}, and restarted", program.kill_and_start)
                await _goes_on(storm, before, random.random() / 5)
        assert await storm.leaves_nothing()
        history = storm.history
        report = history.report()
        say(capsys, report)
        assert history.problems() == []
        assert history.highest_count < 5, "a record reached the delivery limit"
        if kills >= 50:
            _write(report, kills)


async def _goes_on(storm: Storm, before: int, pause: float) -> None:
    """Wait until producers and consumers work again, and a little longer, so that the next kill hits running work."""
    await storm.has_progressed(40)
    with anyio.fail_after(_STOP_S):
        while len(storm.history.attempted) < before + 40:
            await anyio.sleep(0.005)
    await anyio.sleep(pause)


def _write(report: str, kills: int) -> None:
    title = f"The embedded broker with a data folder, {kills} kills at {RATE:,.0f} records a second"
    REPORT.write_text(f"# {title}\n\nWritten by `tools/test --long`.\n\n{report}\n", encoding="utf-8")
