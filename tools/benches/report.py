"""Writes the output of `tools/bench --write docs`: the figures as data, and a page that is generated from them.

Members that were measured replace their entries in the data; others are kept. `python -m tools.benches.report docs`
generates the page again without measuring anything.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.benches.study import StudyResult

PAGE, DATA = "benchmarks.md", "benchmarks.json"
Entry = Mapping[str, Any]
"""One member's figures, as in the data file."""

_HEAD = """# Benchmarks

This page compares kshare with confluent-kafka, franz-go and Apache's own Java client, on one machine and one broker.
The clients take turns in each round, each in its own process. Ratios are computed within a round, so that a busy
machine affects both sides alike. If the machine was shared, trust the ratios more than the figures. Tables and charts
show medians. [The data](benchmarks.json) also has the minimum and maximum of the rounds, and every ratio.

A *null client* is the minimum that a client must do: it fetches and accepts, but decodes no records. It shows what
the broker allows. *Tuned* and *defaults* say whether options were set; the remarks of each section have the details.
"""
_REPEAT = """## How to repeat it

```sh
tools/bench consume
```

installs what it needs, starts a broker, and prints figures and ratios. `tools/bench --help` lists the other
benchmarks. Each section below names the command that measured its figures. With `--write docs`, the figures are
written to the data file, and this page is generated from it.
"""
_TITLES = {
    "codecs": "Messages",
    "records": "Record batches",
    "consume": "Consuming",
    "sharing": "Sharing work",
    "latency": "Latency",
    "memory": "Memory",
    "worker": "The worker",
    "embedded": "The embedded broker",
    "competing": "A group of several clients",
    "crowd": "Many consumers of one partition",
    "decode": "Decoding files",
    "spark": "Spark",
    "trace": "The tracing proxy",
}
"""Member → the title of its section, in the order of the page."""
_IN_SHORT = {
    "records per second in batches, compared with confluent-kafka, both tuned": (
        "consume",
        "records: kshare batches, tuned / confluent-kafka, tuned",
    ),
    "records per second one by one, compared with confluent-kafka, both tuned": (
        "consume",
        "records: kshare records, tuned / confluent-kafka, tuned",
    ),
    "records per second with `kshare.sync`, compared with confluent-kafka, both tuned": (
        "consume",
        "records: kshare.sync records, tuned / confluent-kafka, tuned",
    ),
    "records per second in batches, compared with Java, with defaults": (
        "consume",
        "records: kshare batches, defaults / Java, defaults",
    ),
    "CPU per record in batches, compared with confluent-kafka, both tuned": (
        "consume",
        "CPU: kshare batches, tuned / confluent-kafka, tuned",
    ),
    "latency until a record is received, compared with confluent-kafka": (
        "latency",
        "in hand p50: kshare / confluent-kafka",
    ),
    "latency until a record is acknowledged, compared with confluent-kafka": (
        "latency",
        "acknowledged p50: kshare, commit after each / confluent-kafka, commit after each",
    ),
    "rows per second of the batch view in Spark, compared with Spark's Kafka source": (
        "spark",
        "rows: kshare view / Kafka's source",
    ),
}
"""The rows of the summary at the top of the page: description → member, ratio."""
_BAR = 40


def write(folder: Path, command: str, results: Mapping[str, StudyResult]) -> None:
    """Write these members' figures to the data, and generate the page from all data."""
    path = folder / DATA
    data = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name, result in results.items():
        data[name] = entry(command, result)
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    write_page(folder)


def write_page(folder: Path) -> None:
    """Generate the page from the data."""
    data = json.loads((folder / DATA).read_text(encoding="utf-8"))
    (folder / PAGE).write_text(page(data), encoding="utf-8")


def entry(command: str, result: StudyResult) -> Entry:
    """A member's figures, and how they were measured."""
    measured = result.as_json()
    document = {
        "command": command,
        "machine": f"Python {platform.python_version()}, {platform.machine()}, {platform.system()}",
        **{name: measured[name] for name in ("remarks", "load", "is_series", "units")},
        "figures": {figure: of for figure, of in measured["figures"].items() if of},
        "ratios": measured["ratio_spreads"],
    }
    return dict(_rounded(document))


def page(data: Mapping[str, Entry]) -> str:
    """The text of the page."""
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
            "At a ratio of 2, kshare is twice as fast, or needs half of the time. Below 1, the other client is better.",
            "",
        ]
        yield "\n".join([*head, "| ratio | median | range over the rounds |", "|---|---:|---:|", *rows, ""])


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
    """A bar for each contender."""
    width = max(map(len, spreads))
    longest = max(spread["middle"] for spread in spreads.values()) or 1
    bars = {name: round(_BAR * spread["middle"] / longest) for name, spread in spreads.items()}
    rows = [
        f"{name:{width}}  {'█' * bars[name] or '▏':{_BAR}}  {_figure_text(spread['middle']):>10}"
        for name, spread in spreads.items()
    ]
    return [title, "", *rows]


def _table(entry: Entry) -> list[str]:
    """A row for each contender, a column for each figure."""
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
            _figure_text(spreads[name]["middle"]) if name in spreads else "" for spreads in figures.values()
        )
        + " |"
        for name in contenders
    ]
    return [f"| | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}", *rows]


def _figure_text(value: float) -> str:
    """A figure with at least three significant digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _rounded(value: Any) -> Any:
    """Rounded to the precision of a measurement."""
    if isinstance(value, float):
        return round(value) if abs(value) >= 1e5 else float(f"{value:.5g}")
    if isinstance(value, Mapping):
        return {name: _rounded(part) for name, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list) else value


if __name__ == "__main__":
    write_page(Path(sys.argv[1]))
