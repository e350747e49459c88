"""The figures of every reader: the time from its first record to its last, its CPU, and when the first one came."""

from __future__ import annotations

import json
import time

from tools.benches.contenders.arguments import say


class Meter:
    """Create it together with the consumer, since it measures the time until the first record."""

    def __init__(self) -> None:
        self._made = time.perf_counter()
        self._first: float | None = None
        self._cpu = 0.0

    def on_records(self) -> None:
        """Call this whenever records have arrived, before they are accessed."""
        if self._first is None:
            self._first = time.perf_counter()
            self._cpu = time.process_time()

    def report(self, records: int) -> None:
        """Print the figures as one line, for `tools.benches.consume`."""
        assert self._first is not None
        say(
            json.dumps(
                {
                    "records": records,
                    "seconds": time.perf_counter() - self._first,
                    "cpu": time.process_time() - self._cpu,
                    "first": self._first - self._made,
                }
            )
        )
