"""The report of a storm, as a table with a column for each seed."""

from __future__ import annotations

from collections.abc import Sequence

from tests.integration.consumer_storm.fault_book import FAULTS
from tests.integration.consumer_storm.judging import Judgement
from tests.integration.consumer_storm.running import Storm

Run = tuple[Storm, Judgement]
PROBLEMS = (
    "lost",
    "accepted unseen",
    "archived unseen",
    "rejected unseen",
    "confirmed falsely",
    "delivered after accept",
    "wrong contents",
    "hot loop",
    "left",
)


def table(runs: Sequence[Run]) -> str:
    rows = [("seed", [str(storm.plan.seed) for storm, _ in runs])]
    rows.append(("seconds", [f"{storm.took_s:.0f}" for storm, _ in runs]))
    rows += [_row(name, [judgement.counts[name] for _, judgement in runs]) for name in _counts(runs, "")]
    rows += [
        _row(f"**{kind}**", [len(judgement.problems[kind]) for _, judgement in runs]) for kind in PROBLEMS
    ]
    for fault in FAULTS:
        rows.append(_row(f"fault: {fault}", [storm.proxies.done[fault] for storm, _ in runs]))
    rows.append(_row("fault: process killed", [storm.kills for storm, _ in runs]))
    for kind in ("noticed", "did"):
        rows += [
            _row(name.replace("did ", "programs: ").replace("noticed ", "consumers noticed: "), found)
            for name in _counts(runs, kind)
            for found in [[judgement.counts[name] for _, judgement in runs]]
        ]
    (_, seeds), *others = rows
    lines = [f"| seed | {' | '.join(seeds)} |", f"|---|{'---:|' * len(seeds)}"]
    return "\n".join(lines + [f"| {name} | {' | '.join(cells)} |" for name, cells in others])


def _counts(runs: Sequence[Run], kind: str) -> list[str]:
    names = {name for _, judgement in runs for name in judgement.counts}
    if kind:
        return sorted(name for name in names if name.split()[0] == kind)
    plain = ("written", "deliveries", "deliveries that programs got", "handed out", "accepted")
    told = sorted(name for name in names if name.split()[0] in ("archived", "archived:", "confirmed"))
    return [*plain, *told]


def _row(name: str, counts: Sequence[int]) -> tuple[str, list[str]]:
    return name, [f"{count:,}" for count in counts]
