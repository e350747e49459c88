"""What every Python contender does with its command line, its output and its end."""

from __future__ import annotations

import os
import sys
import threading
import time

_GRACE_S = 20.0


def arguments() -> dict[str, str]:
    """`key=value` words."""
    return dict(word.split("=", 1) for word in sys.argv[1:])


def say(line: str) -> None:
    """At once and in one piece: the other side waits for it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def end_of_input() -> threading.Event:
    """Is set when our parent closes our standard input, or is gone. Who doesn't end by then is ended.

    A line of input asks for the CPU seconds that this process has used, all threads together.
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
