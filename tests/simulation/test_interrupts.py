"""Ctrl-C while many seeds are simulated: totals are printed in any case."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.lengthy


@pytest.mark.parametrize(
    ("jobs", "number", "times"),
    [(1, signal.SIGINT, 1), (1, signal.SIGINT, 2), (2, signal.SIGTERM, 1), (2, signal.SIGINT, 2)],
)
def test_an_interrupted_run_prints_its_totals(jobs: int, number: signal.Signals, times: int) -> None:
    command = [sys.executable, "-m", "tests.simulation", "--world", "producers", "--first", "1", "--digests"]
    variables = os.environ | {"KSHARE_FAST": "0", "PYTHONHASHSEED": "0"}
    with subprocess.Popen(
        [*command, "--seeds", "100000", "--jobs", str(jobs)],
        cwd=ROOT,
        env=variables,
        text=True,
        stdout=subprocess.PIPE,
    ) as program:
        assert program.stdout is not None
        while not (line := program.stdout.readline()).startswith("1 "):
            assert line, "it ended"
        for _ in range(times):
            program.send_signal(number)
            while not (line := program.stdout.readline()).startswith(("interrupted", "seeds that broke")):
                assert line, "it ended"
        rest = line + program.stdout.read()
        assert "seeds that broke a promise: 0" in rest
        assert program.wait(60) == 128 + number
