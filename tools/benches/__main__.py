"""`tools/bench [member …]`: measures kshare and other clients, alternately, in one run."""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import sys
from importlib import import_module
from pathlib import Path

from tools.benches import report
from tools.benches.bench_options import Wishes
from tools.benches.measure import Result, chart, measure, table
from tools.benches.study import StudyResult, conduct, study_table

SUITES = ("codecs", "records")
"""Modules of this package that measure within this process; each has a `suite()`."""
STUDIES = (
    "consume",
    "sharing",
    "latency",
    "memory",
    "worker",
    "embedded",
    "competing",
    "crowd",
    "decode",
    "spark",
    "trace",
)
"""Modules whose contenders run in separate processes, most against a broker; each has a `study()`."""
MEMBERS = SUITES + STUDIES
CHARTS = Path(__file__).parents[2] / ".bench"


def main() -> int:
    options = _parse(sys.argv[1:])
    wishes = Wishes(options.records, options.rounds, tuple(options.only), options.seconds)
    # Modules are only loaded if requested, since each needs other clients to compare with.
    results = [_run(name, wishes) for name in options.members or MEMBERS]
    for result in results:
        if isinstance(result, Result):
            chart(result, CHARTS / f"{result.suite.name}.png")
    if options.write:
        command = shlex.join(["tools/bench", *sys.argv[1:]])
        report.write(options.write, command, {_name(result): result for result in results})
    if options.json:
        print(json.dumps(_as_json(results), indent=2))
        return 0
    print(f"Python {platform.python_version()}, {platform.machine()}, {platform.system()}\n")
    for result in results:
        print(_as_text(result))
    if any(isinstance(result, Result) for result in results):
        print(f"charts: {CHARTS}")
    return 0


def _name(result: Result | StudyResult) -> str:
    return result.study.name if isinstance(result, StudyResult) else result.suite.name


def _run(name: str, wishes: Wishes) -> Result | StudyResult:
    module = import_module(f"tools.benches.{name}")
    if name in SUITES:
        return measure(module.suite(), wishes.rounds or 9)
    return conduct(module.study(wishes).only(wishes.only), wishes.rounds or module.ROUNDS)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/bench", description=__doc__)
    parser.add_argument(
        "members", nargs="*", metavar="member", help=f"any of {', '.join(MEMBERS)}; all by default"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one object whose ratios map a name to a number"
    )
    parser.add_argument(
        "--write",
        type=Path,
        metavar="FOLDER",
        help=f"write the figures to {report.DATA} there, such as docs, and generate {report.PAGE} from it",
    )
    parser.add_argument(
        "--rounds",
        type=_positive,
        metavar="N",
        help="rounds to take the median of; the default depends on the member",
    )
    broker = parser.add_argument_group(f"for {', '.join(STUDIES)}")
    broker.add_argument("--records", type=_positive, metavar="N", help="how many records")
    broker.add_argument("--seconds", type=_positive, metavar="N", help="how long to watch an idle consumer")
    broker.add_argument(
        "--only", action="append", default=[], metavar="PART", help="only contenders with this in their name"
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.members if name not in MEMBERS]
    if unknown:
        parser.error(f"unknown member {unknown[0]!r}; the members are {', '.join(MEMBERS)}")
    return options


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _as_text(result: Result | StudyResult) -> str:
    if isinstance(result, StudyResult):
        return f"{study_table(result)}\n"
    return f"{table(result)}\n"


def _as_json(results: list[Result | StudyResult]) -> dict[str, object]:
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
