"""Writes docs/reports/spark.md: tables of storms with and without a real Spark, with a row for each kind of run.

Contains the report's text. A new row replaces the row of an earlier run of the same kind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Literal

REPORT = Path(__file__).resolve().parents[2] / "docs" / "reports" / "spark.md"

Section = Literal["spark", "journal", "driven"]

_HEAD = """# Spark: storms

A query is repeatedly killed by SIGKILL, at each crash point in turn, while brokers are killed and restarted. The crash
points are: planned (the source has returned an offset that Spark hasn't logged yet), logged (Spark has logged it and
asks for the ranges), read (the rows are read, but not in the sink), written (they are in the sink, but Spark hasn't
committed the batch), committed (Spark has, but the acceptance isn't sent yet), asking (it is being sent), responding
(its response has arrived, but hasn't been read). With `settle=checkpoint`, asking and responding to come between logged
and read.

The groups' delivery limit is 10 instead of 5, because each crash costs acquired records a delivery: see
[the guide](../spark.md#every-crash-point).

Brokers before Kafka 4.4.0 [may forget acceptances](../spark.md#brokers-that-forget-acceptances) that they
had confirmed, when the broker that stores them is killed. Such records are emitted again, as after a reset. They are
counted apart.
"""
_INTRODUCTIONS: dict[Section, str] = {
    "spark": """## Over a real Spark

Written by `tests/spark/test_real_storm.py --long`: PySpark in a separate process, which is killed and restarted from
its checkpoint. The sink is a folder of Parquet files for each batch, renamed when it is complete. Each crash point has
the number of crashes; in brackets, how many records another consumer of the group processed as well, with this as the
last fault before it acquired them (records of a driver killed just before a broker are attributed to the broker).
Who died: the source's runner / the driver with its JVM / both / none, but the sink raised / none, but a task failed in
all its attempts. Tasks: failed in their first attempt / had their worker, its daemon or their executor killed. Doubled
by the other's loss: the other consumer had them first, and lost its locks or its acceptance when a broker was killed.
Doubled after the response: the broker had confirmed the query's acceptance before, so this must not happen. With
`settle=checkpoint`, all others happened between Spark's offset log and the response to the acceptance.
""",
    "journal": """## Over a real Spark, with a journal

Written by the same test: the same faults with `settle=journal`, and two more crash points, appending (a frame of the
journal is being written) and appended (it is durable, and its records aren't accepted yet). Who died and tasks: as
above.
""",
    "driven": """## Driven without Spark

Written by `tests/spark/test_storm.py --long`: Spark's calls in Spark's order, with its two logs and a sink that is
idempotent by batch id as files, so that a run takes a second. "Doubled for the group": records that another consumer
of the group processed as well, by the crash that ended the run in which they were logged. With `settle=checkpoint`, the
acceptance is sent when they are logged, and a crash a few milliseconds later may still come before its response. With
`settle=journal`, there are more crash points: appending (a frame of the journal is being written) and appended (it is
durable, and its records aren't accepted yet). Each run has another folder for temporary files, as on another machine.
"Suspended" runs are stopped by SIGSTOP and go on when another one has taken their place: each of them ended with an
error.
""",
}
_COLUMNS: dict[Section, tuple[str, ...]] = {
    "spark": (
        *("brokers", "Spark", "settle", "group", "records"),
        *("planned", "logged", "read", "written", "committed", "asking", "answering"),
        *("who died", "tasks", "brokers killed", "doubled by the other's loss"),
        *("lost", "emitted twice", "doubled after the response"),
    ),
    "journal": (
        *("brokers", "Spark", "journal", "records", "crashes", "who died", "tasks", "brokers killed"),
        *("lost", "emitted twice"),
    ),
    "driven": (
        *("brokers", "settle", "records", "of these by another consumer"),
        *("crashes", "lost", "emitted twice", "doubled for the group"),
    ),
}
_KEYS: dict[Section, int] = {"spark": 4, "journal": 3, "driven": 2}
"""How many of the first columns identify the kind of run."""


def report(section: Section, cells: Sequence[str]) -> None:
    assert len(cells) == len(_COLUMNS[section])
    rows = {each: _rows(each) for each in _COLUMNS}
    rows[section][tuple(cells[: _KEYS[section]])] = list(cells)
    parts = [_HEAD, *(_part(each, rows[each].values()) for each in _COLUMNS if rows[each])]
    REPORT.write_text("\n".join(parts), encoding="utf-8")


def twice(found: Collection[tuple[int, int]], unexplained: Collection[tuple[int, int]]) -> str:
    """The cell of what was emitted twice."""
    forgotten = len({*found} - {*unexplained})
    return f"{len(unexplained)}" + (
        f" (and {forgotten:,} that the brokers had forgotten)" if forgotten else ""
    )


def _part(section: Section, rows: Iterable[list[str]]) -> str:
    head, *lines = ["| " + " | ".join(row) + " |" for row in [_COLUMNS[section], *sorted(rows)]]
    return "\n".join([_INTRODUCTIONS[section], head, "|---" * len(_COLUMNS[section]) + "|", *lines, ""])


def _rows(section: Section) -> dict[tuple[str, ...], list[str]]:
    """The rows of the existing report, by kind of run."""
    if not REPORT.exists():
        return {}
    found = {}
    columns: tuple[str, ...] = ()
    for line in REPORT.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            columns = ()
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not columns:
            columns = tuple(cells)
        elif columns == _COLUMNS[section] and not line.startswith("|---"):
            found[tuple(cells[: _KEYS[section]])] = cells
    return found
