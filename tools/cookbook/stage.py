"""Runs a scenario behind `kshare trace`, and gives what that has written."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kshare.testing import Broker
from tools.cookbook.scenarios import GROUP, LOCKS_S, SCENARIOS, TOPIC

_DEADLINE_S = 60.0
_WIDTH = 118
"""Where lines are cut, as on a terminal of that width."""


def output_of(scenario: str, *options: str, port: int = 19092) -> str:
    """All of it, with the cluster where people expect it."""
    settings = {"group.share.min.record.lock.duration.ms": "1000"}
    with Broker(topics={TOPIC: 1}, settings=settings) as broker, tempfile.TemporaryDirectory() as folder:
        broker.set_group_config(
            GROUP,
            {
                "share.auto.offset.reset": "earliest",
                "share.record.lock.duration.ms": str(int(LOCKS_S[scenario] * 1000)),
            },
        )
        broker.produce(TOPIC, [b"order %d" % number for number in range(15)])
        said = _run(scenario, broker, Path(folder) / "said", f"127.0.0.1:{port}", options)
        said = said.replace(broker.bootstrap, "localhost:9092")
    said = re.sub(r"(clients of \S+ connect to) \S+", r"\1 127.0.0.1:19092", said)
    return "\n".join(line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…" for line in said.splitlines())


def _run(scenario: str, broker: Broker, path: Path, listen: str, options: tuple[str, ...]) -> str:
    command = [sys.executable, "-m", "kshare.cli", "trace", "-b", broker.bootstrap, "--listen", listen]
    with path.open("wb") as out:
        process = subprocess.Popen([*command, *options], stdout=out, stderr=subprocess.STDOUT)
    try:
        SCENARIOS[scenario](_address(process, path), broker)
        process.send_signal(signal.SIGINT)
        process.wait(_DEADLINE_S)
    finally:
        process.kill()
        process.wait()
    return path.read_text()


def _address(process: subprocess.Popen[bytes], path: Path) -> str:
    deadline = time.monotonic() + _DEADLINE_S
    while not (begun := re.search(r"connect to (\S+)\n", path.read_text())):
        assert process.poll() is None, path.read_text()
        assert time.monotonic() < deadline, "kshare trace doesn't begin"
        time.sleep(0.05)
    return begun[1]
