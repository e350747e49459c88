"""Kills the child processes of its parent when the parent ends, even if it is killed: then the pipe to it is closed.

Runs as a script that needs only the standard library. Reads lines from its input: `+PID` (a process group to watch) and
`-PID` (it has ended). The input ends when the parent exits. Then every group that is still watched is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def main() -> None:
    """Keep the list until the pipe is closed, and then kill all groups in it."""
    groups: set[int] = set()
    for line in sys.stdin:
        if line.startswith("+"):
            groups.add(int(line[1:]))
        else:
            groups.discard(int(line[1:]))
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
