"""Measures contenders in turn, round by round, in one run: what each returns are figures.

A ratio is computed within a round, so that changes of the machine's speed affect both sides equally. Its median is the
figure to quote.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

Trial = Callable[[], Mapping[str, float]]
"""Runs a contender once, and returns its figures by name. Not every contender has every figure."""
TIME = "time"


@dataclass(frozen=True)
class Wishes:
    """The command line's options for every member. With None and (), the member's own defaults apply."""

    records: int | None = None
    rounds: int | None = None
    only: tuple[str, ...] = ()
    """Parts of names. Contenders without any of them are left out."""
    seconds: float | None = None
    """The duration, for members that watch a consumer instead of counting records."""


@dataclass(frozen=True)
class Figure:
    """A quantity that is measured. `form` is its format specification."""

    name: str
    unit: str
    more_is_better: bool = False
    form: str = ",.0f"


@dataclass(frozen=True)
class Contest:
    """The ratio of two contenders in one figure. Above 1, the first is better."""

    figure: str
    ours: str
    theirs: str
    title: str = ""

    @property
    def name(self) -> str:
        return self.title or f"{self.figure}: {self.ours} / {self.theirs}"


@dataclass(frozen=True)
class Study:
    """The measurements of a member of tools/bench. `remarks` are printed with the figures: what was run, and how."""

    name: str
    remarks: Sequence[str]
    figures: Sequence[Figure]
    trials: Mapping[str, Trial]
    contests: Sequence[Contest]
    is_series: bool = False
    """Whether its figures are samples of one quantity. Then only their medians are printed, in one row."""

    def only(self, parts: Sequence[str]) -> Study:
        """The study with those contenders whose names have one of these parts, or with all if there are no parts."""
        if not parts:
            return self
        kept = {name: trial for name, trial in self.trials.items() if any(part in name for part in parts)}
        if not kept:
            raise ValueError(f"no contender of {self.name} is named like {' or '.join(parts)}")
        contests = [contest for contest in self.contests if contest.ours in kept and contest.theirs in kept]
        return replace(self, trials=kept, contests=contests)


@dataclass(frozen=True)
class Spread:
    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(min(values), statistics.median(values), max(values))


@dataclass(frozen=True)
class StudyResult:
    study: Study
    spreads: Mapping[str, Mapping[str, Spread]]
    """By figure, then by contender."""
    ratios: Mapping[str, Spread]
    load: Spread | None = None
    """The machine's load average during the measurement, including our own work. Tells how reliable figures are."""

    def as_json(self) -> dict[str, Any]:
        return {
            "suite": self.study.name,
            "remarks": list(self.study.remarks),
            "load": vars(self.load) if self.load else None,
            "is_series": self.study.is_series,
            "units": {figure.name: figure.unit for figure in self.study.figures},
            "figures": {
                figure: {name: vars(spread) for name, spread in spreads.items()}
                for figure, spreads in self.spreads.items()
            },
            "ratios": {name: round(spread.middle, 3) for name, spread in self.ratios.items()},
            "ratio_spreads": {name: vars(spread) for name, spread in self.ratios.items()},
        }


def timed(case: Callable[[], int], seconds: float = 0.15) -> Trial:
    """A contender in this process: a function that does some work, and returns how many units it did.

    It is repeated until it has run for `seconds`. The figure is nanoseconds for each unit.
    """
    case()  # so that imports, caches and lazily built tables aren't measured

    def trial() -> Mapping[str, float]:
        gc.collect()
        units, spent = 0, 0.0
        while spent < seconds:
            start = time.perf_counter()
            units += case()
            spent += time.perf_counter() - start
        return {TIME: spent / units * 1e9}

    return trial


def conduct(study: Study, rounds: int) -> StudyResult:
    """Run every contender once per round."""
    measured: dict[str, list[Mapping[str, float]]] = {name: [] for name in study.trials}
    loads = []
    for number in range(rounds):
        for name, trial in study.trials.items():
            progress(f"{study.name}: round {number + 1}/{rounds}, {name}")
            measured[name].append(trial())
            loads.append(os.getloadavg()[0])
    progress("")
    return replace(evaluate(study, measured), load=Spread.of(loads))


def evaluate(study: Study, measured: Mapping[str, Sequence[Mapping[str, float]]]) -> StudyResult:
    """Compute spreads and ratios from the results of the rounds."""
    spreads = {}
    for figure in study.figures:
        found = {
            name: [figures[figure.name] for figures in all_ if figure.name in figures]
            for name, all_ in measured.items()
        }
        spreads[figure.name] = {name: Spread.of(values) for name, values in found.items() if values}
    ratios = {}
    for contest in study.contests:
        figure = next(candidate for candidate in study.figures if candidate.name == contest.figure)
        pairs = zip(measured[contest.ours], measured[contest.theirs], strict=True)
        values = [_ratio(figure, ours, theirs) for ours, theirs in pairs]
        ratios[contest.name] = Spread.of(values)
    return StudyResult(study, spreads, ratios)


def _ratio(figure: Figure, ours: Mapping[str, float], theirs: Mapping[str, float]) -> float:
    first, second = ours[figure.name], theirs[figure.name]
    return first / second if figure.more_is_better else second / first


def study_table(result: StudyResult) -> str:
    """All figures, with minimum, median and maximum."""
    lines = [result.study.name, "", *result.study.remarks]
    if result.load:
        lowest, middle, highest = vars(result.load).values()
        lines.append(
            f"load average meanwhile: {lowest:.1f} to {highest:.1f}, median {middle:.1f}, on {os.cpu_count()} cores"
        )
    if result.study.is_series:
        lines += ["", *_series(result)]
    for figure in () if result.study.is_series else result.study.figures:
        if result.spreads[figure.name]:
            lines += [
                "",
                f"{figure.name}, {figure.unit}",
                "",
                *rows(result.spreads[figure.name], figure.form),
            ]
    if result.ratios:
        lines += ["", "ratios (greater: we are better)", "", *rows(result.ratios, ".2f")]
    return "\n".join(lines)


def _series(result: StudyResult) -> list[str]:
    figures, names = result.study.figures, list(result.study.trials)
    width = max(map(len, names))
    lines = [" " * width + "".join(f"{figure.name:>9}" for figure in figures)]
    for name in names:
        cells = (f"{result.spreads[figure.name][name].middle:>9{figure.form}}" for figure in figures)
        lines.append(f"{name:{width}}" + "".join(cells))
    return lines


def rows(spreads: Mapping[str, Spread], form: str) -> list[str]:
    width = max(map(len, spreads), default=4)
    head = f"{'':{width}}  {'min':>12}  {'median':>12}  {'max':>12}"
    rows = [
        f"{name:{width}}  " + "  ".join(f"{value:>12{form}}" for value in (s.low, s.middle, s.high))
        for name, s in spreads.items()
    ]
    return [head, *rows]


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def chart(result: StudyResult, path: Path) -> None:
    """Draw a bar for each contender's first figure, on a logarithmic scale, with the spread as a whisker."""
    from matplotlib.figure import Figure as Drawing  # only installed with the extra `bench`

    first = result.study.figures[0]
    spreads = dict(reversed([*result.spreads[first.name].items()]))
    drawing = Drawing(figsize=(9, 0.4 * len(spreads) + 1.2))
    axes = drawing.subplots()
    whiskers = [[s.middle - s.low for s in spreads.values()], [s.high - s.middle for s in spreads.values()]]
    colours = ["#2a6f97" if name.startswith("kshare") else "#adb5bd" for name in spreads]
    axes.barh([*spreads], [s.middle for s in spreads.values()], xerr=whiskers, color=colours)
    axes.set_xscale("log")
    axes.set_xlabel(f"{first.unit} ({'longer' if first.more_is_better else 'shorter'} is better)")
    axes.set_title(result.study.name)
    drawing.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=110)
