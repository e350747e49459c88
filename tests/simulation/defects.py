"""All defects that can be planted, and a table of what finds them."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.simulation import (
    change_defects,
    consumer_defects,
    producer_defects,
    spark_defects,
    sync_defects,
    worker_defects,
)
from tests.simulation.interrupts import leave_to_parent
from tests.simulation.planting import Defect

REGISTRY: dict[str, Defect] = {
    defect.name: defect
    for module in (
        *(consumer_defects, producer_defects, spark_defects, sync_defects, worker_defects),
        change_defects,
    )
    for defect in module.DEFECTS
}
FIRST_SEED, MOST_SEEDS = 1, 100
KNOWN_SEEDS = 3
"""How many are tried from a defect's own seed on."""
_TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
Problems = dict[str, list[str]]


class Search(NamedTuple):
    """How a planted defect fared."""

    defect: Defect
    seeds: int
    """How many were simulated."""
    is_found: bool
    others: tuple[str, ...]
    """What else the last of these seeds broke."""

    @property
    def row(self) -> str:
        caught = f"*{self.defect.finding}*" if self.is_found else "**nothing**"
        return (
            f"| {self.defect.world} | `{self.defect.name}` | {self.defect.what} | {caught} | {self.seeds} |"
        )


HEADER = "| world | defect | the client | found as | after seeds |\n|---|---|---|---|---|"


def search(
    defects: Sequence[Defect], problems_of: Callable[[int, Defect], Problems], jobs: int, *, is_known: bool
) -> Iterator[Search]:
    """Plant each in a process of its own, and simulate until it is found. `problems_of` simulates a seed of its world.

    `is_known`: from the defect's own seed on, a few. Otherwise from the first seed on.
    """
    with multiprocessing.get_context("fork").Pool(jobs, leave_to_parent, maxtasksperchild=1) as pool:
        yield from pool.imap(partial(_search, problems_of, is_known), defects, chunksize=1)


def _search(problems_of: Callable[[int, Defect], Problems], is_known: bool, defect: Defect) -> Search:
    defect.plant()
    first, most = (defect.seed, KNOWN_SEEDS) if is_known else (FIRST_SEED, MOST_SEEDS)
    found: Problems = {}
    for count in range(most):
        found = problems_of(first + count, defect)
        if defect.finding in found or "failed" in found:
            others = tuple(kind for kind in found if kind != defect.finding)
            return Search(defect, count + 1, defect.finding in found, others)
    return Search(defect, most, False, tuple(found))


def write_table(path: Path, searches: Sequence[Search]) -> None:
    """Replace the table in a document."""
    text = path.read_text(encoding="utf-8")
    table = "\n".join([HEADER, *(result.row for result in searches)]) + "\n"
    path.write_text(_TABLE.sub(lambda _: table, text, count=1), encoding="utf-8")
