"""Evaluates a storm: which records were lost, emitted twice, or processed by both consumers, and when."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.spark.gone_back import emitted_twice, may_go_back, unexplained
from tests.spark.real_storm.fates import JOURNAL_STEPS, STEPS, VICTIMS
from tests.spark.real_storm.places import ends, lag
from tests.spark.real_storm.sink import Where, batches
from tests.spark.real_storm.storm import GROUP, TOPIC, Storm
from tests.spark.storm_report import twice

A_BROKER, THE_OTHERS = "a broker", "the other's"


@dataclass
class Verdict:
    total: int
    lost: list[Where]
    twice: Counter[Where]
    unexplained: list[Where]
    """Those of them that the brokers hadn't forgotten to be accepted."""
    by_another: int
    doubled: Counter[str] = field(default_factory=Counter)
    """Records that another consumer processed as well, by the preceding fault: the step, or a broker; or because the
    other consumer had lost them before this query acquired them."""
    doubled_after_confirmed: list[Where] = field(default_factory=list)
    """Those of which the broker had confirmed the query's acceptance before another consumer acquired them."""
    lag: int = 0
    crashes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By step and victim."""
    tasks: Counter[str] = field(default_factory=Counter)
    strikes: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    """How runs of the query ended that were not killed together with their driver."""
    failures: list[str] = field(default_factory=list)

    def journal_cells(self) -> list[str]:
        """The row of a query with a journal: crashes by point, who died, and the rest."""
        points = Counter(step for step, _ in self.crashes.elements())
        killed = sum(count for fault, count in self.tasks.items() if fault in ("kill", "daemon", "executor"))
        return [
            ", ".join(f"{step} {points[step]}" for step in JOURNAL_STEPS),
            " / ".join(str(sum(self.crashes[step, victim] for step in JOURNAL_STEPS)) for victim in VICTIMS),
            f"{sum(self.tasks.values()) - killed} / {killed}",
            str(self.strikes),
            str(len(self.lost)),
            twice(self.twice, self.unexplained),
        ]

    def cells(self) -> list[str]:
        """The report's row: each crash point, then which process was killed, then the rest."""
        points = []
        for step in STEPS:
            crashes = sum(count for (at, _), count in self.crashes.items() if at == step)
            points.append(f"{crashes}" + (f" ({self.doubled[step]})" if self.doubled[step] else ""))
        died = (sum(self.crashes[step, victim] for step in STEPS) for victim in VICTIMS)
        brokers = f"{self.strikes}" + (f" ({self.doubled[A_BROKER]})" if self.doubled[A_BROKER] else "")
        killed = sum(count for fault, count in self.tasks.items() if fault in ("kill", "daemon", "executor"))
        raised = sum(self.tasks.values()) - killed
        return [
            *points,
            " / ".join(map(str, died)),
            f"{raised} / {killed}",
            brokers,
            str(self.doubled[THE_OTHERS]),
            str(len(self.lost)),
            twice(self.twice, self.unexplained),
            str(len(self.doubled_after_confirmed)),
        ]


def judge(storm: Storm) -> Verdict:
    emitted = [where for rows in batches(storm.folder / "sink").values() for where in rows]
    done = storm.company.done
    there = {
        (number, at)
        for number, end in ends(storm.place.bootstrap, TOPIC, storm.partitions).items()
        for at in range(end)
    }
    counts, too_often = Counter(emitted), emitted_twice(emitted)
    logged = storm.ledger.read("logged")
    verdict = Verdict(
        total=len(there),
        lost=sorted(there - counts.keys() - done.keys()),
        twice=too_often,
        unexplained=unexplained(too_often, logged)
        if may_go_back(storm.place.name.removeprefix("Kafka "))
        else sorted(too_often),
        by_another=len(done),
        lag=lag(storm.place.bootstrap, GROUP, TOPIC),
        crashes=Counter((entry["step"], entry["victim"]) for entry in storm.ledger.read("crash")),
        tasks=Counter(entry["fault"] for entry in storm.ledger.read("task")),
        strikes=len(storm.ledger.read("struck")),
        endings=Counter(entry["why"] for entry in storm.ledger.read("ended")),
        failures=[entry["why"] for entry in storm.ledger.read("failed")],
    )
    _see_what_is_doubled(storm, verdict, counts.keys() & done.keys())
    return verdict


def _see_what_is_doubled(storm: Storm, verdict: Verdict, doubled: set[Where]) -> None:
    faults = sorted(storm.ledger.read("crash", "strike"), key=lambda entry: float(entry["at"]))
    times = [fault["at"] for fault in faults]
    logged = _first_times(_rows_logged(storm.ledger.read("logged")))
    confirmed = _first_times(_rows_confirmed(storm.ledger.read("confirmed")))
    for where in sorted(doubled):
        given = storm.company.done[where]
        before = bisect_right(times, given)
        if given < logged[where]:
            verdict.doubled[THE_OTHERS] += 1
        else:
            verdict.doubled[_name(faults[before - 1]) if before else "no fault"] += 1
        if confirmed.get(where, given) < given:
            verdict.doubled_after_confirmed.append(where)


def _name(fault: dict[str, Any]) -> str:
    return str(fault["step"]) if fault["event"] == "crash" else A_BROKER


def _rows_logged(events: list[dict[str, Any]]) -> Iterator[tuple[Where, float]]:
    for event in events:
        for partitions in event["acquired"].values():
            for number, flat in partitions.items():
                for first, count, _ in zip(*[iter(flat)] * 3, strict=True):
                    yield from (((int(number), at), event["at"]) for at in range(first, first + count))


def _rows_confirmed(events: list[dict[str, Any]]) -> Iterator[tuple[Where, float]]:
    for event in events:
        yield from (
            ((event["partition"], at), event["at"]) for at in range(event["first"], event["last"] + 1)
        )


def _first_times(rows: Iterator[tuple[Where, float]]) -> dict[Where, float]:
    found: dict[Where, float] = {}
    for where, at in rows:
        found.setdefault(where, at)
    return found
