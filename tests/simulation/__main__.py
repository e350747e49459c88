"""Runs `tests.simulation.command`. Ctrl-C is taken care of before that is imported, which takes a second."""

from __future__ import annotations

import os
import signal
import sys

from tests.simulation.interrupts import end_at_once

if __name__ == "__main__":
    end_at_once()
    try:
        from tests.simulation.command import main

        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 128 + signal.SIGPIPE
    sys.exit(code)
