"""Runs `kshare worker` in a folder with an app, and reads what it and its processes print."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cli.running import DEADLINE, KSHARE

APP = """
import os, signal, sys, time
from pathlib import Path

import anyio

from kshare.worker import Worker

worker = Worker(group="shippers")

def say(*words):  # in one piece: several threads may do it
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
"""
"""The beginning of an app."""


class WorkerProgram:
    """`output` is what all processes have printed so far, standard error included."""

    def __init__(self, folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [*KSHARE, "worker", *arguments],
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.output = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdout is not None
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE)
        self.process.stdout.close()

    def until(self, wanted: str) -> str:
        """Wait for a line with this text; returns the line. The test's own timeout bounds the wait."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output += line
            if wanted in line:
                return line
        raise AssertionError(f"no {wanted!r} in {self.output!r}")

    def end(self, number: signal.Signals | None = None) -> int:
        """Send a signal, and return the exit code. Reads until every process has closed its output."""
        assert self.process.stdout is not None
        if number is not None:
            self.process.send_signal(number)
        self.output += self.process.stdout.read()
        return self.process.wait(DEADLINE)
