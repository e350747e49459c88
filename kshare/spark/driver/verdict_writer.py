"""Writes the verdict log in a thread, so that a slow disk doesn't delay renewals and heartbeats in the event loop.

Decides the order: each write is complete before the next begins, in the order of the calls. A write that has begun is
finished even if its caller is cancelled.
"""

from __future__ import annotations

import anyio
from anyio.to_thread import run_sync

from kshare.spark.driver.decisions import Verdicts
from kshare.spark.driver.verdict_log import VerdictLog


class VerdictWriter:
    """Call it from one event loop. What was written is on disk when a call returns."""

    def __init__(self, log: VerdictLog) -> None:
        self._log = log
        self._turn = anyio.Lock()

    async def begin(self, batch: int) -> None:
        """As `VerdictLog.begin`."""
        async with self._turn:
            await run_sync(self._log.begin, batch)

    async def write(self, batch: int, verdicts: Verdicts) -> None:
        """As `VerdictLog.write`."""
        async with self._turn:
            await run_sync(self._log.write, batch, verdicts)
