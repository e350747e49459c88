"""Simulates a cluster and its clients, once for each seed, and judges each history.

tools/simulate --seeds 1000     reports the seeds that break a promise
tools/simulate --seeds 1000 --changes   lets topics, groups and stored data change, too
tools/simulate --seed 17        does one again, and shows what happened when
tools/simulate --seed 17 --shrink   looks for a smaller simulation that fails in the same way
tools/simulate --slow --seeds 20    little happens, for hours of simulated time
tools/simulate --world all --minutes 480    a night
tools/simulate --found          does all again that once broke a promise
tools/simulate --defects        plants each known kind of mistake, and looks whether it is found
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from random import SystemRandom
from typing import NamedTuple

from tests.simulation.consumers import ConsumerWorld
from tests.simulation.defects import HEADER, REGISTRY, search, write_table
from tests.simulation.found import FOUND
from tests.simulation.interrupts import Interrupts, leave_to_parent
from tests.simulation.planting import Defect
from tests.simulation.producers import ProducerWorld
from tests.simulation.shrinking import shrink
from tests.simulation.spark import SparkWorld
from tests.simulation.sync import SyncWorld
from tests.simulation.totals import Totals
from tests.simulation.workers import WorkerWorld
from tests.simulation.world import Outcome, Plan, simulate

_MOST_SHOWN = 3
_HIGHEST = 10**9
_PROGRESS_EVERY_S = 60.0
WORLDS: dict[str, type[ConsumerWorld | ProducerWorld | SparkWorld | SyncWorld | WorkerWorld]] = {
    "consumers": ConsumerWorld,
    "producers": ProducerWorld,
    "spark": SparkWorld,
    "sync": SyncWorld,
    "workers": WorkerWorld,
}


class Result(NamedTuple):
    seed: int
    problems: dict[str, list[str]]
    outcome: Outcome | None
    """Without its history. None if the simulation itself failed."""
    digest: str
    """Of the history."""


class Choice(NamedTuple):
    """Which simulations to run."""

    world: str
    backend: str
    is_slow: bool = False
    has_changes: bool = False
    is_collected: bool = True

    def plan(self, seed: int) -> Plan:
        kind = WORLDS[self.world]
        plan = kind.slow(seed) if self.is_slow else kind.drawn(seed)
        return kind.with_changes(plan) if self.has_changes else plan

    def simulate(self, plan: Plan) -> Outcome:
        return simulate(WORLDS[self.world], plan, self.backend, is_collected=self.is_collected)


def run(seed: int, choice: Choice) -> Result:
    try:
        outcome = choice.simulate(choice.plan(seed))
    except Exception as error:
        return Result(seed, {"failed": [f"{type(error).__name__}: {error}"]}, None, "")
    digest = hashlib.sha256("\n".join(outcome.history).encode()).hexdigest()
    return Result(seed, outcome.problems, replace(outcome, history=[]), digest)


def results(seeds: Iterator[int], jobs: int, choice: Choice) -> Iterator[Result]:
    if jobs == 1:
        yield from (run(seed, choice) for seed in seeds)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork"), leave_to_parent) as pool:
        pending = {pool.submit(run, seed, choice) for seed in islice(seeds, 2 * jobs)}
        while pending:
            done = next(as_completed(pending))
            pending.remove(done)
            pending |= {pool.submit(run, seed, choice) for seed in islice(seeds, 1)}
            yield done.result()


def main() -> int:
    options = _options()
    if options.defects:
        return _look_for_defects(options)
    if options.defect:
        REGISTRY[options.defect].plant()
    if options.found:
        return _found_again(options.backend)
    worlds = _worlds(options)
    if options.seed is not None:
        choice = _choice(options, worlds[0])
        return (_shrink if options.shrink else _replay)(options.seed, choice)
    is_good, interrupts = True, Interrupts()
    minutes = options.minutes / len(worlds) if options.minutes else None
    for world in worlds:
        if not interrupts.is_asked:
            choice = _choice(options, world)
            is_good &= _run_many(options, choice, minutes, interrupts)
    return 0 if is_good else 1


def _choice(options: argparse.Namespace, world: str) -> Choice:
    return Choice(world, options.backend, options.slow, options.changes, not options.uncollected)


def _run_many(
    options: argparse.Namespace, choice: Choice, minutes: float | None, interrupts: Interrupts
) -> bool:
    """Returns whether no seed broke a promise. `minutes`: for so long, whatever the number of seeds is."""
    first = SystemRandom().randrange(_HIGHEST) if options.first is None else options.first
    pace = "slow, " if choice.is_slow else ""
    print(f"first seed: {first} ({choice.world}, {pace}{choice.backend})", flush=True)
    began, totals = time.monotonic(), Totals()

    def seeds() -> Iterator[int]:
        for seed in count(first):
            is_last = (
                seed - first >= options.seeds if minutes is None else time.monotonic() - began >= 60 * minutes
            )
            if is_last or interrupts.is_asked:
                return
            yield seed

    def tell() -> None:
        print("\n".join(totals.lines(time.monotonic() - began)), flush=True)

    interrupts.before_exit = tell
    told = began
    for result in results(seeds(), options.jobs, choice):
        _add(totals, result, options)
        if result.problems and options.stop:
            break
        if time.monotonic() - told > _PROGRESS_EVERY_S:
            told = time.monotonic()
            print(f"... {totals.progress}", flush=True)
    tell()
    return not totals.bad


def _add(totals: Totals, result: Result, options: argparse.Namespace) -> None:
    """Tell what was found, and count it."""
    if options.digests:
        print(f"{result.seed} {result.digest}", flush=True)
    outcome = result.outcome
    totals.add(
        result.seed,
        is_bad=bool(result.problems),
        simulated_s=outcome.simulated_s if outcome else 0.0,
        cpu_s=outcome.cpu_s if outcome else 0.0,
        counts=outcome.verdict.counts if outcome else {},
        requests=outcome.requests if outcome else {},
        faults=outcome.done if outcome else {},
    )
    for kind, found in result.problems.items():
        more = f" and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
        print(f"seed {result.seed}: {kind}: {'; '.join(found[:_MOST_SHOWN])}{more}", flush=True)


def _found_again(backend: str) -> int:
    bad = 0
    for what, (world, plan) in FOUND.items():
        problems = Choice(world, backend).simulate(plan).problems
        bad += bool(problems)
        print(f"{what}: {'broken again: ' + ', '.join(problems) if problems else 'holds'}", flush=True)
    return 1 if bad else 0


def _look_for_defects(options: argparse.Namespace) -> int:
    """Print a table of what finds each defect, after how many seeds."""
    chosen = [one for one in REGISTRY.values() if options.world in (None, "all", one.world)]
    print(HEADER, flush=True)
    searches = []
    for one in search(
        chosen, partial(_problems, options.backend), options.jobs, is_known=options.defects == "known"
    ):
        print(one.row + (f" {', '.join(one.others)}" if not one.is_found else ""), flush=True)
        searches.append(one)
    found = sum(one.is_found for one in searches)
    print(f"{found} of {len(searches)} planted defects are found")
    if options.write:
        write_table(Path(options.write), searches)
    return 0 if found == len(searches) else 1


def _problems(backend: str, seed: int, defect: Defect) -> dict[str, list[str]]:
    return run(seed, Choice(defect.world, backend, has_changes=defect.has_changes)).problems


def _shrink(seed: int, choice: Choice) -> int:
    """Print each smaller plan that fails in one of the ways in which this one does."""
    plan = choice.plan(seed)
    kinds = set(choice.simulate(plan).problems)
    if not kinds:
        print(f"seed {plan.seed} breaks no promise")
        return 0

    def fails(smaller: Plan) -> bool:
        print(".", end="", flush=True)
        return not kinds.isdisjoint(choice.simulate(smaller).problems)

    print(f"{plan}\nbroken: {', '.join(sorted(kinds))}", flush=True)
    shrink(plan, fails, lambda smaller: print(f"\n{smaller}", flush=True))
    print("\nNothing can be dropped from the last one. Add it to FOUND in tests/simulation/found.py.")
    return 1


def _replay(seed: int, choice: Choice) -> int:
    outcome = choice.simulate(choice.plan(seed))
    width = max((len(line.split(" ", 2)[1]) for line in outcome.history), default=0)
    for line in outcome.history:
        at, who, what = line.split(" ", 2)
        print(f"{at} {who:{width}} {what}")
    print(outcome.plan)
    print(dict(outcome.verdict.counts))
    for kind, found in outcome.problems.items():
        for one in found:
            print(f"{kind}: {one}")
    return 1 if outcome.problems else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/simulate", description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to simulate (default: 100)")
    parser.add_argument(
        "--minutes", type=float, help="simulate one seed after another for so long, instead of --seeds"
    )
    parser.add_argument("--slow", action="store_true", help="little happens, for hours of simulated time")
    parser.add_argument("--first", type=int, help="the first of them (default: a random number)")
    parser.add_argument("--seed", type=int, help="simulate this one, and show its history")
    parser.add_argument("--shrink", action="store_true", help="with --seed: make what fails smaller")
    parser.add_argument(
        "--found", action="store_true", help="simulate again what once broke a promise, made smaller"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one for each processor)"
    )
    parser.add_argument(
        "--world", choices=(*sorted(WORLDS), "all"), help="default: consumers; with --defects: all"
    )
    parser.add_argument(
        "--defects",
        choices=("all", "known"),
        nargs="?",
        const="all",
        help="plant each defect in turn, and simulate seeds from 1 on until it is found; "
        "known: from a seed on that is known to find it",
    )
    parser.add_argument("--write", metavar="FILE", help="with --defects: replace the table in this document")
    parser.add_argument(
        "--changes", action="store_true", help="let topics, groups and stored data change, too"
    )
    parser.add_argument(
        "--uncollected",
        action="store_true",
        help="without Python's garbage collector: nothing may depend on it",
    )
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio")
    parser.add_argument("--stop", action="store_true", help="stop at the first seed that breaks a promise")
    parser.add_argument("--digests", action="store_true", help="print a digest of each seed's history")
    parser.add_argument(
        "--defect",
        choices=sorted(REGISTRY),
        help="plant a defect, to see whether it is found",
    )
    options = parser.parse_args()
    if options.world not in (None, "all"):
        for refused in _refused(options, options.world):
            parser.error(refused)
    return options


def _worlds(options: argparse.Namespace) -> list[str]:
    """Those that are meant, and can be what else is wanted."""
    if options.world != "all":
        return [options.world or "consumers"]
    return [world for world in sorted(WORLDS) if not [*_refused(options, world)]]


def _refused(options: argparse.Namespace, world: str) -> Iterator[str]:
    kind = WORLDS[world]
    if options.backend not in kind.backends:
        yield f"--world {world}: only with --backend {kind.backends[0]}, which its clients run whatever their user runs"
    if options.changes and not kind.changes:
        yield f"--world {world} knows no --changes"
    if options.slow and not kind.can_be_slow:
        yield f"--world {world} can't be --slow"


if __name__ == "__main__":
    sys.exit(main())
