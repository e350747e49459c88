"""Full garbage collections of the console's process: seldom, because no page is made meanwhile.

A reading of a large cluster consists of a million objects, and a new one makes Python scan all of them every few
seconds, for half a second. They hardly need it: what they refer to isn't cyclic, and is freed when the next reading
replaces it. Collections of young objects stay as they are.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_NEVER = 1_000_000_000
_LEAST_PAUSE_S = 300.0
_SHARE_OF_TIME = 1000
"""The pause after a full collection is at least so many times as long as the collection."""


@contextmanager
def rare_collections(least_pause_s: float = _LEAST_PAUSE_S) -> Iterator[None]:
    """For a whole process. Full collections run in a thread of its own."""
    is_over, before = threading.Event(), gc.get_threshold()

    def collect() -> None:
        pause_s = least_pause_s
        while not is_over.wait(pause_s):
            began = time.monotonic()
            gc.collect()
            pause_s = max(least_pause_s, _SHARE_OF_TIME * (time.monotonic() - began))

    collector = threading.Thread(target=collect, name="kshare web collections", daemon=True)
    gc.set_threshold(*before[:2], _NEVER)
    collector.start()
    try:
        yield
    finally:
        is_over.set()
        collector.join()
        gc.set_threshold(*before)
