"""The user's decisions for single rows, kept on the driver's disk while they are needed.

Spark's offset log is written before the rows are processed, so it can't contain them. One small file per query has the
decisions for its newest micro-batch: after a crash, a runner on the same machine finds there which rows of a completed
batch must not be accepted. If the file is missing, the decisions are unknown.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import anyio
from anyio.to_thread import run_sync

from kshare.spark.driver.decisions import Verdict, Verdicts
from kshare.spark.driver.offset_sets import PartitionRange
from kshare.spark.journal.folder_store import sync_folder


class VerdictLog:
    """The decisions of one query, which is identified by its member id."""

    def __init__(self, folder: Path, member_id: str) -> None:
        self._folder = folder
        self._path = folder / f"{member_id}.verdicts"
        self._batch: int | None = None

    def begin(self, batch: int) -> None:
        """The user is about to process this batch: earlier decisions are dropped.

        Spark may ask for the same batch again while it is being processed; its decisions stay then.
        """
        if batch != self._batch:
            self._batch = batch
            self.write(batch, {})

    def write(self, batch: int, verdicts: Verdicts) -> None:
        """Store all decisions for this batch so far. They are on disk when this returns."""
        kept = {
            verdict: [[span.partition[0].hex(), *span[1:], span.partition[1]] for span in spans]
            for verdict, spans in verdicts.items()
        }
        partial = self._path.with_suffix(".partial")
        with partial.open("w", encoding="utf-8") as file:
            json.dump({"batch": batch, "verdicts": kept}, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._path)
        # Otherwise, the file from before may be there again after a crash of the machine, without these decisions.
        sync_folder(self._folder)

    def read(self, batch: int) -> Verdicts | None:
        """The decisions for this batch; None if they are unknown."""
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        if kept["batch"] != batch:
            return None
        rows: Mapping[Verdict, list[tuple[str, int, int, int]]] = kept["verdicts"]
        return {
            verdict: [
                PartitionRange((bytes.fromhex(topic), number), first, last)
                for topic, first, last, number in spans
            ]
            for verdict, spans in rows.items()
        }


class VerdictWriter:
    """Writes the log in a thread, so that a slow disk doesn't delay renewals and heartbeats in the event loop.

    Call it from one event loop. What was written is on disk when a call returns. Each write is complete before the next
    begins, in the order of the calls, and is finished even if its caller is cancelled.
    """

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
