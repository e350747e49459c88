"""What every reader reports: the time from its first record to its last, its CPU, and how late the first one came."""

from __future__ import annotations

import json
import time

from tools.benches.contenders.arguments import say


class Meter:
    """Made when the consumer is; told of the first record; asked when all are read."""

    def __init__(self) -> None:
        self._made = time.perf_counter()
        self._first: float | None = None
        self._cpu = 0.0

    def on_records(self) -> None:
        """Called whenever records have come, before they are looked at."""
        if self._first is None:
            self._first = time.perf_counter()
            self._cpu = time.process_time()

    def report(self, records: int) -> None:
        """One line, for `tools.benches.consume`."""
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
