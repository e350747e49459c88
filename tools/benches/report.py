"""What `tools/bench --write docs` leaves there: the figures as data, and a page for people that is made of them.

A member that is measured replaces its own entry of the data, the others stay. `python -m tools.benches.report docs`
makes the page anew without measuring anything.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.benches.measure import Result
from tools.benches.study import StudyResult

PAGE, DATA = "benchmarks.md", "benchmarks.json"
Entry = Mapping[str, Any]
"""One member's figures, as they are in the data file."""

_HEAD = """# Benchmarks

kshare beside confluent-kafka, franz-go and Apache's own Java client, on one machine and one broker. Contenders take
turns, round by round, each in a process of its own. A ratio is taken within a round, so that a busy machine hits both
sides alike: where others share the machine, the ratios are worth more than the figures. Tables and charts show medians;
[the data](benchmarks.json) has the least and the greatest of the rounds too, and every ratio.
"""
_REPEAT = """## How to repeat it

```sh
tools/bench consume
```

sets up what it needs, starts a broker, and prints figures and ratios; `tools/bench --help` names the other members.
Each section below says with which command its figures were taken. With `--write docs` they go into the data file, of
which this page is made.
"""
_TITLES = {
    "codecs": "Messages",
    "records": "Record batches",
    "consume": "Consuming",
    "sharing": "Sharing work",
    "latency": "Latency",
    "memory": "Memory",
    "embedded": "The embedded broker",
    "competing": "A group of several clients",
    "decode": "Decoding files",
    "spark": "Spark",
    "trace": "The tracing proxy",
}
"""Member → its section, in the order of the page."""
_IN_SHORT = {
    "records a second in batches, beside confluent-kafka, both tuned": (
        "consume",
        "records: kshare batches, tuned / confluent-kafka, tuned",
    ),
    "records a second one by one, beside confluent-kafka, both tuned": (
        "consume",
        "records: kshare records, tuned / confluent-kafka, tuned",
    ),
    "records a second without an event loop, beside confluent-kafka, both tuned": (
        "consume",
        "records: kshare.sync records, tuned / confluent-kafka, tuned",
    ),
    "records a second in batches, beside Java, with defaults": (
        "consume",
        "records: kshare batches, defaults / Java, defaults",
    ),
    "CPU a record in batches, beside confluent-kafka, both tuned": (
        "consume",
        "CPU: kshare batches, tuned / confluent-kafka, tuned",
    ),
    "delay until a record is in hand, beside confluent-kafka": (
        "latency",
        "in hand p50: kshare / confluent-kafka",
    ),
    "delay until a record is acknowledged, beside confluent-kafka": (
        "latency",
        "acknowledged p50: kshare, commit after each / confluent-kafka, commit after each",
    ),
    "rows a second of Spark's batch view, beside Spark's source for Kafka": (
        "spark",
        "rows: kshare view / Kafka's source",
    ),
}
"""What the page begins with: what is compared → member, ratio."""
_BAR = 40


def write(folder: Path, command: str, results: Mapping[str, Result | StudyResult]) -> None:
    """Put these members' figures into the data, and make the page of all that are there."""
    path = folder / DATA
    data = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name, result in results.items():
        data[name] = entry(command, result)
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    write_page(folder)


def write_page(folder: Path) -> None:
    """Make the page of the data."""
    data = json.loads((folder / DATA).read_text(encoding="utf-8"))
    (folder / PAGE).write_text(page(data), encoding="utf-8")


def entry(command: str, result: Result | StudyResult) -> Entry:
    """A member's figures, and how they were taken."""
    said: dict[str, Any] = {
        "command": command,
        "machine": f"Python {platform.python_version()}, {platform.machine()}, {platform.system()}",
    }
    if isinstance(result, StudyResult):
        said["remarks"] = list(result.study.remarks)
        said["load"] = result.load and vars(result.load)
        said["is_series"] = result.study.is_series
        said["units"] = {figure.name: figure.unit for figure in result.study.figures}
        spreads = {figure: of for figure, of in result.spreads.items() if of}
    else:
        said |= {"remarks": [], "load": None, "is_series": False}
        said["units"] = {"time": f"nanoseconds a {result.suite.unit}"}
        spreads = {"time": result.nanoseconds}
    said["figures"] = {
        figure: {name: vars(spread) for name, spread in of.items()} for figure, of in spreads.items()
    }
    said["ratios"] = {name: vars(spread) for name, spread in result.ratios.items()}
    return dict(_rounded(said))


def page(data: Mapping[str, Entry]) -> str:
    """The page for people."""
    sections = [_section(title, data[name]) for name, title in _TITLES.items() if name in data]
    return "\n".join([_HEAD, *_in_short(data), _REPEAT, *sections])


def _in_short(data: Mapping[str, Entry]) -> Iterator[str]:
    found = {
        what: data[member]["ratios"][ratio]
        for what, (member, ratio) in _IN_SHORT.items()
        if ratio in data.get(member, {}).get("ratios", {})
    }
    if found:
        rows = [
            f"| {what} | {spread['middle']:.2f} | {spread['low']:.2f} to {spread['high']:.2f} |"
            for what, spread in found.items()
        ]
        head = [
            "## In short",
            "",
            "Above 1, kshare is better: as many times faster, or in so much less time.",
            "",
        ]
        yield "\n".join([*head, "| what | median | rounds |", "|---|---:|---:|", *rows, ""])


def _section(title: str, entry: Entry) -> str:
    parts = [f"## {title}", ""]
    parts += [f"- {remark}" for remark in entry["remarks"]]
    parts += ["", f"`{entry['command']}` on {entry['machine']}{_load(entry)}.", ""]
    first, *_ = entry["figures"]
    if not entry["is_series"]:
        parts += ["```text", *_chart(f"{first}, {entry['units'][first]}", entry["figures"][first]), "```", ""]
    return "\n".join([*parts, *_table(entry), ""])


def _load(entry: Entry) -> str:
    load = entry["load"]
    return f", load average {load['low']:.1f} to {load['high']:.1f}" if load else ""


def _chart(title: str, spreads: Mapping[str, Mapping[str, float]]) -> list[str]:
    """A bar a contender."""
    width = max(map(len, spreads))
    longest = max(spread["middle"] for spread in spreads.values()) or 1
    bars = {name: round(_BAR * spread["middle"] / longest) for name, spread in spreads.items()}
    rows = [
        f"{name:{width}}  {'█' * bars[name] or '▏':{_BAR}}  {_said(spread['middle']):>10}"
        for name, spread in spreads.items()
    ]
    return [title, "", *rows]


def _table(entry: Entry) -> list[str]:
    """A row a contender, a column a figure."""
    figures = entry["figures"]
    contenders = dict.fromkeys(name for spreads in figures.values() for name in spreads)
    units = set(entry["units"].values())
    heads = [
        name if len(units) == 1 and len(figures) > 1 else f"{name}, {entry['units'][name]}"
        for name in figures
    ]
    rows = [
        f"| {name} | "
        + " | ".join(
            _said(spreads[name]["middle"]) if name in spreads else "" for spreads in figures.values()
        )
        + " |"
        for name in contenders
    ]
    return [f"| | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}", *rows]


def _said(value: float) -> str:
    """A figure with three digits that mean something, at least."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _rounded(value: Any) -> Any:
    """Without the digits that no measurement has."""
    if isinstance(value, float):
        return round(value) if abs(value) >= 1e5 else float(f"{value:.5g}")
    if isinstance(value, Mapping):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    write_page(Path(sys.argv[1]))
