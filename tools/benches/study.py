"""Contenders that each run in a process of their own and give several figures: in turn, round by round.

A ratio is taken within a round, so that a drifting machine hits both sides alike; its median is the figure to quote.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tools.benches.measure import Spread, progress, rows

Trial = Callable[[], Mapping[str, float]]
"""Runs a contender once; gives its figures by name. Not every contender has every figure."""


@dataclass(frozen=True)
class Figure:
    """What is measured; `form` is how it is printed."""

    name: str
    unit: str
    more_is_better: bool = False
    form: str = ",.0f"


@dataclass(frozen=True)
class Contest:
    """Two contenders' ratio in one figure; above 1 says that the first is better."""

    figure: str
    ours: str
    theirs: str


@dataclass(frozen=True)
class Study:
    """What a member of tools/bench measures. `remarks` are printed with the figures: what was run, and how."""

    name: str
    remarks: Sequence[str]
    figures: Sequence[Figure]
    trials: Mapping[str, Trial]
    contests: Sequence[Contest]
    is_series: bool = False
    """Its figures are one quantity again and again: printed side by side, the medians alone."""

    def only(self, parts: Sequence[str]) -> Study:
        """With the contenders whose names have one of these parts; with all of them when there are no parts."""
        if not parts:
            return self
        kept = {name: trial for name, trial in self.trials.items() if any(part in name for part in parts)}
        if not kept:
            raise ValueError(f"no contender of {self.name} is named like {' or '.join(parts)}")
        contests = [one for one in self.contests if one.ours in kept and one.theirs in kept]
        return replace(self, trials=kept, contests=contests)


@dataclass(frozen=True)
class StudyResult:
    study: Study
    spreads: Mapping[str, Mapping[str, Spread]]
    """By figure, then by contender."""
    ratios: Mapping[str, Spread]
    load: Spread | None = None
    """The machine's load average while this was measured, our own work included: says what the figures are worth."""

    def as_json(self) -> dict[str, object]:
        return {
            "suite": self.study.name,
            "remarks": list(self.study.remarks),
            "load": vars(self.load) if self.load else None,
            "units": {figure.name: figure.unit for figure in self.study.figures},
            "figures": {
                figure: {name: vars(spread) for name, spread in spreads.items()}
                for figure, spreads in self.spreads.items()
            },
            "ratios": {name: round(spread.middle, 3) for name, spread in self.ratios.items()},
            "ratio_spreads": {name: vars(spread) for name, spread in self.ratios.items()},
        }


def conduct(study: Study, rounds: int) -> StudyResult:
    """Every contender once a round."""
    taken: dict[str, list[Mapping[str, float]]] = {name: [] for name in study.trials}
    loads = []
    for number in range(rounds):
        for name, trial in study.trials.items():
            progress(f"{study.name}: round {number + 1}/{rounds}, {name}")
            taken[name].append(trial())
            loads.append(os.getloadavg()[0])
    progress("")
    return replace(evaluate(study, taken), load=Spread.of(loads))


def evaluate(study: Study, taken: Mapping[str, Sequence[Mapping[str, float]]]) -> StudyResult:
    """Spreads and ratios of what the rounds gave."""
    spreads = {}
    for figure in study.figures:
        found = {
            name: [one[figure.name] for one in all_ if figure.name in one] for name, all_ in taken.items()
        }
        spreads[figure.name] = {name: Spread.of(values) for name, values in found.items() if values}
    ratios = {}
    for contest in study.contests:
        figure = next(one for one in study.figures if one.name == contest.figure)
        pairs = zip(taken[contest.ours], taken[contest.theirs], strict=True)
        values = [_ratio(figure, ours, theirs) for ours, theirs in pairs]
        ratios[f"{contest.figure}: {contest.ours} / {contest.theirs}"] = Spread.of(values)
    return StudyResult(study, spreads, ratios)


def _ratio(figure: Figure, ours: Mapping[str, float], theirs: Mapping[str, float]) -> float:
    first, second = ours[figure.name], theirs[figure.name]
    return first / second if figure.more_is_better else second / first


def study_table(result: StudyResult) -> str:
    """All figures with their least, middle and greatest values."""
    lines = [result.study.name, "", *result.study.remarks]
    if result.load:
        least, middle, most = vars(result.load).values()
        lines.append(
            f"load average meanwhile: {least:.1f} to {most:.1f}, median {middle:.1f}, on {os.cpu_count()} cores"
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
