"""A sink that writes files, because its function may run in another process, as with Spark Connect."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

Where = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True)
class FileSink:
    """A sink for foreachBatch, idempotent by batch id. `judge` is called with each batch before it is written."""

    folder: Path
    judge: Callable[[DataFrame, int], None] | None = None
    """A function of a module, so that it can be pickled."""

    def __call__(self, frame: DataFrame, batch: int) -> None:
        if self.judge is not None:
            self.judge(frame, batch)
        rows = [(row.partition, row.offset) for row in frame.select("partition", "offset").collect()]
        self.folder.mkdir(exist_ok=True)
        path = self.folder / f"{batch}.json"
        if not path.exists():
            partial = path.with_suffix(".partial")
            partial.write_text(json.dumps(rows), encoding="utf-8")
            partial.rename(path)

    @property
    def written(self) -> list[Where]:
        """All rows, in the order of micro-batches."""
        files = sorted(self.folder.glob("*.json"), key=lambda path: int(path.stem))
        return [(row[0], row[1]) for path in files for row in json.loads(path.read_text(encoding="utf-8"))]
