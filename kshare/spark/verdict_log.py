"""What the user decided of single rows, kept on the driver's disk until it doesn't matter any more.

Spark's offset log is written before the rows are seen, so it can't hold this. One small file a query says what was
decided of its newest micro-batch: a runner that comes up on the same machine after a crash knows by it which rows of a
completed batch were not to be accepted. Where there is no such file it knows that it doesn't know.

Decides nothing about records.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from kshare.spark.custody import Verdict, Verdicts
from kshare.spark.spans import Span


class VerdictLog:
    """Of one query, known by its member id."""

    def __init__(self, folder: Path, member_id: str) -> None:
        self._path = folder / f"{member_id}.verdicts"
        self._batch: int | None = None

    def begin(self, batch: int) -> None:
        """The rows of this batch are about to be seen, and judged anew: by this process for the first time.

        Spark may ask for a batch again while its rows are being judged; what was decided stays.
        """
        if batch != self._batch:
            self._batch = batch
            self.write(batch, {})

    def write(self, batch: int, verdicts: Verdicts) -> None:
        """On disk when this returns: all of what was decided of this batch so far."""
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

    def read(self, batch: int) -> Verdicts | None:
        """None where nothing is known of this batch."""
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        if kept["batch"] != batch:
            return None
        rows: Mapping[Verdict, list[tuple[str, int, int, int]]] = kept["verdicts"]
        return {
            verdict: [
                Span((bytes.fromhex(topic), number), first, last) for topic, first, last, number in spans
            ]
            for verdict, spans in rows.items()
        }
