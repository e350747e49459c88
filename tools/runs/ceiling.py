"""Runs a command and ends it when it takes too long: first as Ctrl-C would, so that it can say how far it came."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

EXIT_CODE = 124
"""Of a command that was ended; what `timeout` of the shell gives."""
_STEPS = ((signal.SIGINT, 60.0), (signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0))
"""How a command is asked to end, and how many seconds it has to do so."""


def run(
    command: Sequence[str | Path],
    limit: float,
    *,
    folder: Path,
    environment: Mapping[str, str],
    steps: Sequence[tuple[signal.Signals, float]] = _STEPS,
) -> int:
    """The command's exit code, or `EXIT_CODE` when it had to be ended after `limit` seconds."""
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, env=environment) as process:
        try:
            return process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            said = f"the run didn't end within {limit / 60:g} minutes and is ended"
            print(f"tools/test: {said}", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            # The terminal has told the command as well.
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(timeout=steps[0][1])
        for number, patience in steps:
            process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=patience)
                break
    return EXIT_CODE
