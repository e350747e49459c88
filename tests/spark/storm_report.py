"""docs/reports/spark.md: a table of the driven storms and one of those over a real Spark, a row a kind of run.

Decides what the report says around its rows. A row takes the place of that of an earlier run of the same kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

REPORT = Path(__file__).resolve().parents[2] / "docs" / "reports" / "spark.md"

Section = Literal["spark", "driven"]

_HEAD = """# Spark: storms

A query is killed by SIGKILL at each crash point in turn, over and over, while brokers are killed and started again.
What the crash points are called: planned (the token is made, Spark hasn't logged it), logged (Spark has, and asks for
the ranges), read (the rows are there, the sink isn't), written (the sink has them, Spark doesn't know), committed
(Spark knows, the acceptance hasn't left), asking (it is leaving), answering (its answer is there, and nobody has read
it). With `settle=checkpoint` asking and answering come between logged and read.

The groups give records up after 10 deliveries instead of 5, for each crash costs what was acquired a delivery: see
[the guide](../spark.md#every-crash-point).
"""
_INTRODUCTIONS: dict[Section, str] = {
    "spark": """## Over a real Spark

Written by `tests/spark/test_real_storm.py --long`: PySpark in a process of its own, which is killed and started again
from its checkpoint. The sink is a folder of Parquet a batch, renamed into place. Below each crash point: how often
somebody died there; in brackets, how many records another consumer of the group worked on as well, with this the last
fault before it got them (a broker that dies a moment after a driver gets what is the driver's).
Who died: the source's runner / the driver with its JVM / both / nobody, but the sink raised / nobody, but a task failed
in all its attempts. Tasks: failed in their first attempt / had their worker, its daemon or their executor killed.
Doubled by the other's loss: the other had them first, and a broker that died took its locks or its acceptance along.
Doubled after the answer: the broker had confirmed the query's acceptance before, so this must not be. With
`settle=checkpoint` all others lie between Spark's offset log and the answer to the acceptance.
""",
    "driven": """## Driven without Spark

Written by `tests/spark/test_storm.py --long`: Spark's calls in Spark's order, its two logs and a sink that is
idempotent by batch id as files, so that a life takes a second. "Doubled for the group": records that another consumer
of the group worked on as well, by the crash that ended the life in which they were logged. With `settle=checkpoint` the
acceptance leaves when they are, and a crash a few milliseconds later may still come before its answer.
""",
}
_COLUMNS: dict[Section, tuple[str, ...]] = {
    "spark": (
        *("brokers", "Spark", "settle", "group", "records"),
        *("planned", "logged", "read", "written", "committed", "asking", "answering"),
        *("who died", "tasks", "brokers killed", "doubled by the other's loss"),
        *("lost", "emitted twice", "doubled after the answer"),
    ),
    "driven": (
        *("brokers", "settle", "records", "of these by another consumer"),
        *("crashes", "lost", "emitted twice", "doubled for the group"),
    ),
}
_KEYS: dict[Section, int] = {"spark": 4, "driven": 2}
"""So many first columns say which kind of run it was."""


def report(section: Section, cells: Sequence[str]) -> None:
    assert len(cells) == len(_COLUMNS[section])
    rows = {each: _rows(each) for each in _COLUMNS}
    rows[section][tuple(cells[: _KEYS[section]])] = list(cells)
    parts = [_HEAD, *(_part(each, rows[each].values()) for each in ("spark", "driven") if rows[each])]
    REPORT.write_text("\n".join(parts), encoding="utf-8")


def _part(section: Section, rows: Iterable[list[str]]) -> str:
    head, *lines = ["| " + " | ".join(row) + " |" for row in [_COLUMNS[section], *sorted(rows)]]
    return "\n".join([_INTRODUCTIONS[section], head, "|---" * len(_COLUMNS[section]) + "|", *lines, ""])


def _rows(section: Section) -> dict[tuple[str, ...], list[str]]:
    """By kind of run, as the report has them."""
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
