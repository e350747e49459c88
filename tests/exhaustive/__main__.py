"""python -m tests.exhaustive: explores all systems, and prints how much there was to explore."""

from __future__ import annotations

import argparse

from tests.exhaustive.runs import runs

_HEAD = ("run", "members", "records", "faults", "states", "transitions", "ends", "depth", "CPU s")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.exhaustive", description=__doc__)
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--records", type=int, default=2)
    parser.add_argument("--faults", type=int, default=1)
    parser.add_argument("--run", action="append", help="only this one; may be given more than once")
    given = parser.parse_args()
    print(_row(_HEAD))
    print(_row("---" for _ in _HEAD))
    for run in runs(given.members, given.records, given.faults):
        if given.run is None or run.name in given.run:
            found = run.explore()
            size = (given.members, given.records, given.faults)
            counts = (found.states, found.transitions, found.ends, found.depth, round(found.cpu_s))
            print(_row([run.name, *(f"{number:,}" for number in (*size, *counts))]), flush=True)


def _row(cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"  # type: ignore[call-overload]


if __name__ == "__main__":
    main()
