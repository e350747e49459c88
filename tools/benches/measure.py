"""Measures contenders in turn, in one process and one run, so that changes of the machine's speed affect all equally.

A case is a function that does some work and returns how many units it did. A round runs every case once. The ratio of
two cases is computed within a round, and its median over the rounds is the figure to quote.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Timed:
    """Units done and the seconds that they took, for cases that measure their own time."""

    units: int
    seconds: float


Case = Callable[[], int | Timed]


def units_of(done: int | Timed) -> int:
    return done.units if isinstance(done, Timed) else done


@dataclass(frozen=True)
class Comparison:
    """A ratio to print: how many times faster `ours` is than `theirs`."""

    name: str
    ours: str
    theirs: str


@dataclass(frozen=True)
class Suite:
    """The measurements of a member of tools/bench. `unit` is what a case counts: a record, a message."""

    name: str
    unit: str
    cases: Mapping[str, Case]
    comparisons: Sequence[Comparison]
    warms_up: bool = True


@dataclass(frozen=True)
class Spread:
    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(min(values), statistics.median(values), max(values))


@dataclass(frozen=True)
class Result:
    suite: Suite
    nanoseconds: Mapping[str, Spread]
    ratios: Mapping[str, Spread]

    def as_json(self) -> dict[str, object]:
        return {
            "suite": self.suite.name,
            "unit": self.suite.unit,
            "ns_per_unit": {name: vars(spread) for name, spread in self.nanoseconds.items()},
            "ratios": {name: round(spread.middle, 3) for name, spread in self.ratios.items()},
            "ratio_spreads": {name: vars(spread) for name, spread in self.ratios.items()},
        }


def measure(suite: Suite, rounds: int = 9, seconds: float = 0.15) -> Result:
    """Measure a suite. Within a round, every case is repeated until it has run for `seconds`."""
    times: dict[str, list[float]] = {name: [] for name in suite.cases}
    for case in suite.cases.values() if suite.warms_up else ():
        case()  # so that imports, caches and lazily built tables aren't measured
    for number in range(rounds):
        for name, case in suite.cases.items():
            progress(f"{suite.name}: round {number + 1}/{rounds}, {name}")
            times[name].append(_time(case, seconds))
    progress("")
    ratios = {}
    for one in suite.comparisons:
        pairs = zip(times[one.ours], times[one.theirs], strict=True)
        ratios[one.name] = Spread.of([theirs / ours for ours, theirs in pairs])
    return Result(suite, {name: Spread.of(values) for name, values in times.items()}, ratios)


def _time(case: Case, seconds: float) -> float:
    """Nanoseconds per unit."""
    gc.collect()
    units, spent = 0, 0.0
    while spent < seconds:
        start = time.perf_counter()
        done = case()
        if isinstance(done, Timed):
            return done.seconds / done.units * 1e9
        units += done
        spent += time.perf_counter() - start
    return spent / units * 1e9


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def table(result: Result) -> str:
    lines = [f"{result.suite.name}: nanoseconds per {result.suite.unit}", ""]
    lines += rows(result.nanoseconds, ".1f")
    lines += ["", "ratios (greater: we are better)", ""]
    lines += rows(result.ratios, ".2f")
    return "\n".join(lines)


def rows(spreads: Mapping[str, Spread], form: str) -> list[str]:
    width = max(map(len, spreads), default=4)
    head = f"{'':{width}}  {'min':>12}  {'median':>12}  {'max':>12}"
    rows = [
        f"{name:{width}}  " + "  ".join(f"{value:>12{form}}" for value in (s.low, s.middle, s.high))
        for name, s in spreads.items()
    ]
    return [head, *rows]


def chart(result: Result, path: Path) -> None:
    """Draw a bar for each case, on a logarithmic scale, with the spread as a whisker."""
    from matplotlib.figure import Figure

    names = list(result.nanoseconds)[::-1]
    spreads = [result.nanoseconds[name] for name in names]
    figure = Figure(figsize=(9, 0.4 * len(names) + 1.2))
    axes = figure.subplots()
    whiskers = [[s.middle - s.low for s in spreads], [s.high - s.middle for s in spreads]]
    colours = ["#2a6f97" if name.startswith("kshare") else "#adb5bd" for name in names]
    axes.barh(names, [s.middle for s in spreads], xerr=whiskers, color=colours)
    axes.set_xscale("log")
    axes.set_xlabel(f"nanoseconds per {result.suite.unit} (shorter is better)")
    axes.set_title(result.suite.name)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def to_json(result: Result) -> str:
    return json.dumps(result.as_json(), indent=2)
