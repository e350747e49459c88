"""Runs a command and ends it if it takes too long: first with SIGINT, so that it can print a summary."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

EXIT_CODE = 124
"""The exit code for a command that was ended, as of the shell command `timeout`."""
_STEPS = ((signal.SIGINT, 60.0), (signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0))
"""The signals that end a command, and how many seconds it has to react to each."""


def run(
    command: Sequence[str | Path],
    limit: float,
    *,
    folder: Path,
    environment: Mapping[str, str],
    steps: Sequence[tuple[signal.Signals, float]] = _STEPS,
) -> int:
    """Run the command. Returns its exit code, or `EXIT_CODE` if it had to be ended after `limit` seconds."""
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, env=environment) as process:
        try:
            return process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            message = f"tools/test: the run didn't end within {limit / 60:g} minutes and was ended"
        except KeyboardInterrupt:
            # The terminal has sent the signal to the command, too.
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(timeout=steps[0][1])
            message = "tools/test: the run didn't end after Ctrl-C and was ended"
        for number, patience in steps:
            process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=patience)
                break
    # Last, behind everything that the command has printed, which may not end with a newline.
    print(f"\n{message}", file=sys.stderr, flush=True)
    return EXIT_CODE
