"""Ends what its parent started when the parent is gone, however it went: a kill can't be caught, a closed pipe is seen.

Run as a script with the standard library alone. Reads lines from its input: `+PID` (a process group to look after)
and `-PID` (it has ended). At the end of input, which comes when the parent exits, every group still looked after
is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def main() -> None:
    """Keep the list until the pipe closes, then kill what is left on it."""
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
