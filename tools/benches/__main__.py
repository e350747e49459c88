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
from tools.benches.study import StudyResult, Wishes, chart, conduct, study_table

SUITES = ("codecs", "records")
"""Modules of this package that measure within this process."""
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
"""Modules whose contenders run in separate processes, most against a broker."""
MEMBERS = SUITES + STUDIES
CHARTS = Path(__file__).parents[2] / ".bench"


def main() -> int:
    options = _parse(sys.argv[1:])
    wishes = Wishes(options.records, options.rounds, tuple(options.only), options.seconds)
    # Modules are only loaded if requested, since each needs other clients to compare with.
    results = [_run(name, wishes) for name in options.members or MEMBERS]
    charted = [result for result in results if result.study.name in SUITES]
    for result in charted:
        chart(result, CHARTS / f"{result.study.name}.png")
    if options.write:
        command = shlex.join(["tools/bench", *sys.argv[1:]])
        report.write(options.write, command, {result.study.name: result for result in results})
    if options.json:
        print(json.dumps(_as_json(results), indent=2))
        return 0
    print(f"Python {platform.python_version()}, {platform.machine()}, {platform.system()}\n")
    for result in results:
        print(f"{study_table(result)}\n")
    if charted:
        print(f"charts: {CHARTS}")
    return 0


def _run(name: str, wishes: Wishes) -> StudyResult:
    """Each module has a `study()`, and `ROUNDS`."""
    module = import_module(f"tools.benches.{name}")
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


def _as_json(results: list[StudyResult]) -> dict[str, object]:
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
