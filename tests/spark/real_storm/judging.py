"""What came of a storm: is anything lost, emitted twice, worked on by two; and when did that happen."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.spark.real_storm.fates import STEPS, VICTIMS
from tests.spark.real_storm.places import ends, lag
from tests.spark.real_storm.sink import Where, batches
from tests.spark.real_storm.storm import GROUP, TOPIC, Storm

A_BROKER = "a broker"


@dataclass
class Verdict:
    total: int
    lost: list[Where]
    twice: list[Where]
    by_another: int
    doubled: Counter[str] = field(default_factory=Counter)
    """Records that another consumer worked on as well, by the fault before: the step, or a broker."""
    doubled_after_confirmed: list[Where] = field(default_factory=list)
    """Of these, where the broker had confirmed the query's acceptance before another consumer got them."""
    lag: int = 0
    crashes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By step and victim."""
    tasks: Counter[str] = field(default_factory=Counter)
    strikes: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    """How starts of the query ended that were not killed along with their driver."""
    failures: list[str] = field(default_factory=list)

    def cells(self) -> list[str]:
        """For the report: a crash point each, then who died, then the rest."""
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
            str(len(self.lost)),
            str(len(self.twice)),
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
    counts = Counter(emitted)
    verdict = Verdict(
        total=len(there),
        lost=sorted(there - counts.keys() - done.keys()),
        twice=sorted(where for where, count in counts.items() if count > 1),
        by_another=len(done),
        lag=lag(storm.place.bootstrap, GROUP, TOPIC),
        crashes=Counter((one["step"], one["victim"]) for one in storm.ledger.read("crash")),
        tasks=Counter(one["fault"] for one in storm.ledger.read("task")),
        strikes=len(storm.ledger.read("struck")),
        endings=Counter(one["why"] for one in storm.ledger.read("ended")),
        failures=[one["why"] for one in storm.ledger.read("failed")],
    )
    _see_what_is_doubled(storm, verdict, counts.keys() & done.keys())
    return verdict


def _see_what_is_doubled(storm: Storm, verdict: Verdict, doubled: set[Where]) -> None:
    faults = sorted(storm.ledger.read("crash", "strike"), key=lambda one: float(one["at"]))
    times = [one["at"] for one in faults]
    confirmed = _confirmations(storm.ledger.read("confirmed"))
    for where in sorted(doubled):
        given = storm.company.given[where]
        before = bisect_right(times, given)
        verdict.doubled[_name(faults[before - 1]) if before else "no fault"] += 1
        if confirmed.get(where, given) < given:
            verdict.doubled_after_confirmed.append(where)


def _name(fault: dict[str, Any]) -> str:
    return str(fault["step"]) if fault["event"] == "crash" else A_BROKER


def _confirmations(events: list[dict[str, Any]]) -> dict[Where, float]:
    """When it first was."""
    found: dict[Where, float] = {}
    for one in events:
        for at in range(one["first"], one["last"] + 1):
            found.setdefault((one["partition"], at), one["at"])
    return found
