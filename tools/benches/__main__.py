"""`tools/bench [member …] [--json]`: ourselves and the peers, alternately, in one run."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from importlib import import_module
from pathlib import Path

from tools.benches.measure import Result, chart, measure, table

MEMBERS = ("codecs", "records", "consume")
"""Modules beside this one; each has a `suite()`. Loaded when asked for, since each needs peers of its own."""
CHARTS = Path(__file__).parents[2] / ".bench"


def main() -> int:
    options = _parse(sys.argv[1:])
    members = [import_module(f"tools.benches.{name}") for name in options.members or MEMBERS]
    results = [measure(member.suite(), options.rounds) for member in members]
    for result in results:
        chart(result, CHARTS / f"{result.suite.name}.png")
    if options.json:
        print(json.dumps(_as_json(results), indent=2))
        return 0
    print(
        f"Python {platform.python_version()}, {platform.machine()}, {platform.system()}; {options.rounds} rounds\n"
    )
    for result in results:
        print(table(result))
        print(f"\nchart: {CHARTS / result.suite.name}.png\n")
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/bench", description=__doc__)
    parser.add_argument(
        "members", nargs="*", metavar="member", help=f"any of {', '.join(MEMBERS)}; all by default"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one object whose ratios map a name to a number"
    )
    parser.add_argument(
        "--rounds", type=_positive, default=9, metavar="N", help="rounds to take the median of (9)"
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.members if name not in MEMBERS]
    if unknown:
        parser.error(f"there is no member {unknown[0]!r}; there are {', '.join(MEMBERS)}")
    return options


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _as_json(results: list[Result]) -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "ratios": {
            name: round(spread.middle, 3) for result in results for name, spread in result.ratios.items()
        },
        "suites": [result.as_json() for result in results],
    }


if __name__ == "__main__":
    sys.exit(main())
