"""Writes docs/reports/spark-sink.md: a row for each way to write. A new row replaces the earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

REPORT = Path(__file__).resolve().parents[3] / "docs" / "reports" / "spark-sink.md"

_HEAD = """# Spark: a stream into a topic, killed ten times

Written by `tests/spark/sink/test_writers_kills.py --long`. A query reads a share group with `format("kshare")` and
writes to a topic with `format("kshare")`, on PySpark with `local[2,3]` and the embedded broker, in micro-batches of
about 50 records. Ten times, a moment after it has made progress, one of its processes is killed by SIGKILL: the driver
with its JVM and all workers, the runner of its source, or the Python workers that run tasks. Afterwards, the topic is
read with `read_committed`. Doubled: copies beyond the first. [The guide](../spark.md#what-may-be-written-twice) says
when they appear.

| writing | records | drivers killed | runners killed | workers killed | lost | doubled |
|---|---|---|---|---|---|---|
"""


def report(cells: Sequence[object]) -> None:
    rows = _rows()
    rows[str(cells[0])] = (
        "| " + " | ".join(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells) + " |"
    )
    REPORT.write_text(_HEAD + "\n".join(rows[mode] for mode in sorted(rows)) + "\n", encoding="utf-8")


def _rows() -> dict[str, str]:
    """The rows of the existing report."""
    if not REPORT.exists():
        return {}
    lines = REPORT.read_text(encoding="utf-8").partition("|---|\n")[2].splitlines()
    return {line.split("|")[1].strip(): line for line in lines}
