"""Reads the sink: a folder of Parquet files for each batch, named by its id once it is complete."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet

Where = tuple[int, int]
"""Partition and offset."""


def rows_of(folder: Path) -> list[Where]:
    rows: list[Where] = []
    for path in folder.glob("*.parquet"):
        found = pyarrow.parquet.read_table(path)
        rows += zip(*(found.column(name).to_pylist() for name in ("partition", "offset")), strict=True)
    return rows


def batches(sink: Path) -> dict[int, list[Where]]:
    """All complete batches."""
    return {int(path.name): rows_of(path) for path in sink.iterdir() if path.name.isdecimal()}
