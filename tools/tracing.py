"""Runs `kshare trace` in a separate process that writes into a file: for benchmarks and for outputs in the docs."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.bootstrap import ROOT

_DEADLINE_S = 300.0
_BEGUN = re.compile(r"connect to (\S+)\n")


@contextmanager
def tracing(bootstrap: str, log_file: Path, *options: str, listen: str = "127.0.0.1:0") -> Iterator[str]:
    """Yield the address that clients connect to. At the end, stop the process like Ctrl-C, so the file is complete."""
    command = [sys.executable, "-m", "kshare.cli", "trace", "-b", bootstrap, "--listen", listen, *options]
    with log_file.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)
    try:
        yield _address(process, log_file)
        process.send_signal(signal.SIGINT)
        process.wait(_DEADLINE_S)
    finally:
        process.kill()
        process.wait()


def _address(process: subprocess.Popen[bytes], log_file: Path) -> str:
    deadline = time.monotonic() + _DEADLINE_S
    while not (match := _BEGUN.search(text := log_file.read_text())):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"kshare trace doesn't start: {text}")
        time.sleep(0.05)
    return match[1]
