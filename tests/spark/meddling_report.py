"""Writes docs/reports/spark-meddling.md: a row for each value of `settle`. A new row replaces the earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

REPORT = Path(__file__).resolve().parents[2] / "docs" / "reports" / "spark-meddling.md"

_HEAD = """# Spark: meddling with a query that is stopped

Written by `tests/spark/test_meddling.py --long`: Spark's calls in Spark's order, the embedded broker, two partitions,
micro-batches of about 40 records, and a sink that is idempotent by batch id. Half of the runs crash at a random step
and are started again. Between runs, the offset of a partition is set to a random one, earlier or later, records are
deleted up to a random offset, and a random older copy of the checkpoint is restored, which must be refused. Lost:
records that were to be emitted after the last meddling, and weren't. Twice: emitted more often than that. Accepted in
no sink: settled in the group, while neither the sink nor Spark's log or the journal had them, after each crash and each
run. The test is judged with planted defects, which it finds. [The guide](../spark.md#lost-and-old-checkpoints) says how
the query recognizes all this.

| settle | records | crashes | resets | deletions | older copies refused | lost | twice | accepted in no sink |
|---|---|---|---|---|---|---|---|---|
"""


def report(cells: Sequence[object]) -> None:
    rows: dict[str, str] = {}
    if REPORT.exists():
        lines = REPORT.read_text(encoding="utf-8").partition("|---|\n")[2].splitlines()
        rows = {line.split("|")[1].strip(): line for line in lines}
    rows[str(cells[0])] = (
        "| " + " | ".join(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells) + " |"
    )
    REPORT.write_text(_HEAD + "\n".join(rows[mode] for mode in sorted(rows)) + "\n", encoding="utf-8")
