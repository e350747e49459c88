"""The command line, output and end of all Python contenders."""

from __future__ import annotations

import os
import sys
import threading
import time

_GRACE_S = 20.0


def arguments() -> dict[str, str]:
    """The arguments, which have the form `key=value`."""
    return dict(word.split("=", 1) for word in sys.argv[1:])


def say(line: str) -> None:
    """Print a line immediately and in one piece, since the parent waits for it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def end_of_input() -> threading.Event:
    """An event that is set when the parent closes our standard input, or has ended. 20 s later, the process is killed.

    In response to a line of input, this prints the CPU time of this process in seconds, including all threads.
    """
    ended = threading.Event()

    def listen() -> None:
        for _ in sys.stdin:
            say(f"{time.process_time():.6f}")
        ended.set()
        time.sleep(_GRACE_S)
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    return ended
