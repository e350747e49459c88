"""Explores small systems in every order of their events, and prints how much there was to explore.

docs/reports/exhaustive.md says what the runs cover, and what the columns mean. With the defaults, this takes about half
a minute of processor time; each further member or fault makes many times as many states.

Exit codes: 0 if all promises were kept; 1 if not, with the shortest list of events that breaks one; 2 for wrong
options.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial

from tests.exhaustive.explorer import Broken
from tests.exhaustive.runs import runs
from tests.helpers.whole_numbers import at_least
from tests.simulation.interrupts import end_at_once

_HEAD = ("run", "members", "records", "faults", "states", "transitions", "ends", "depth", "CPU s")
_NAMES = [run.name for run in runs(1, 1, 0)]


def main() -> int:
    given = _parser().parse_args()
    print(_row(_HEAD))
    print(_row("---" for _ in _HEAD), flush=True)
    for run in runs(given.members, given.records, given.faults):
        if given.run is None or run.name in given.run:
            try:
                found = run.explore(partial(_tell, run.name))
            except Broken as broken:
                print(f"{run.name}: {broken}")
                return 1
            size = (given.members, given.records, given.faults)
            counts = (found.states, found.transitions, found.ends, found.depth, round(found.cpu_s))
            print(_row([run.name, *(f"{number:,}" for number in (*size, *counts))]), flush=True)
    return 0


def _tell(run: str, states: int, to_do: int) -> None:
    print(f"{run}: {states:,} states so far, {to_do:,} still to be explored", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    first_line, _, more = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m tests.exhaustive", description=first_line, epilog=more.strip()
    )
    parser.add_argument("--members", type=at_least(1), default=1, help="consumers, or workers (default: 1)")
    parser.add_argument("--records", type=at_least(1), default=2, help="in the one partition (default: 2)")
    parser.add_argument(
        "--faults", type=at_least(0), default=1, help="at most so many in each order (default: 1)"
    )
    parser.add_argument(
        "--run", action="append", choices=_NAMES, help="only this one; may be given more than once"
    )
    return parser


def _row(cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"  # type: ignore[call-overload]


if __name__ == "__main__":
    end_at_once()
    sys.exit(main())
