"""Simulates a cluster and its clients, once for each seed, and judges each history.

tools/simulate --seeds 1000     reports the seeds that break a promise
tools/simulate --seed 17        does one again, and shows what happened when
tools/simulate --seed 17 --shrink   looks for a smaller simulation that fails in the same way
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
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from itertools import islice
from pathlib import Path
from random import SystemRandom
from typing import NamedTuple

from tests.simulation.consumers import ConsumerWorld
from tests.simulation.defects import HEADER, REGISTRY, search, write_table
from tests.simulation.found import FOUND
from tests.simulation.producers import ProducerWorld
from tests.simulation.shrinking import shrink
from tests.simulation.spark import SparkWorld
from tests.simulation.sync import SyncWorld
from tests.simulation.workers import WorkerWorld
from tests.simulation.world import Outcome, Plan, simulate

_MOST_SHOWN = 3
_HIGHEST = 10**9
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
    counts: Counter[str]
    faults: Counter[str]
    simulated_s: float
    cpu_s: float
    digest: str
    """Of the history."""


def run(seed: int, world: str, backend: str) -> Result:
    try:
        outcome = _simulated(WORLDS[world].drawn(seed), world, backend)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        return Result(seed, {"failed": [text]}, Counter(), Counter(), 0.0, 0.0, "")
    digest = hashlib.sha256("\n".join(outcome.history).encode()).hexdigest()
    return Result(
        seed,
        outcome.problems,
        outcome.verdict.counts,
        outcome.done,
        outcome.simulated_s,
        outcome.cpu_s,
        digest,
    )


def _simulated(plan: Plan, world: str, backend: str) -> Outcome:
    return simulate(WORLDS[world], plan, backend)


def results(seeds: range, jobs: int, world: str, backend: str) -> Iterator[Result]:
    if jobs == 1:
        yield from (run(seed, world, backend) for seed in seeds)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
        following = iter(seeds)
        pending = {pool.submit(run, seed, world, backend) for seed in islice(following, 2 * jobs)}
        while pending:
            done = next(as_completed(pending))
            pending.remove(done)
            pending |= {pool.submit(run, seed, world, backend) for seed in islice(following, 1)}
            yield done.result()


def main() -> int:
    options = _options()
    if options.defects:
        return _look_for_defects(options)
    options.world = options.world or "consumers"
    if options.world == "sync" and options.backend != "asyncio":
        raise SystemExit("kshare.sync runs asyncio, whatever its user runs: the world of sync does, too")
    if options.defect:
        REGISTRY[options.defect].plant()
    if options.seed is not None:
        plan = WORLDS[options.world].drawn(options.seed)
        return (_shrink if options.shrink else _replay)(plan, options.world, options.backend)
    if options.found:
        return _found_again(options.backend)
    first = SystemRandom().randrange(_HIGHEST) if options.first is None else options.first
    print(f"first seed: {first}", flush=True)
    began, bad, count = time.monotonic(), 0, 0
    faults: Counter[str] = Counter()
    records, simulated_s, cpu_s = 0, 0.0, 0.0
    for result in results(range(first, first + options.seeds), options.jobs, options.world, options.backend):
        count += 1
        faults += result.faults
        records += result.counts["written"]
        simulated_s += result.simulated_s
        cpu_s += result.cpu_s
        if options.digests:
            print(f"{result.seed} {result.digest}", flush=True)
        if result.problems:
            bad += 1
            for kind, found in result.problems.items():
                more = f" and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
                print(f"seed {result.seed}: {kind}: {'; '.join(found[:_MOST_SHOWN])}{more}", flush=True)
            if options.stop:
                break
    happened = ", ".join(f"{number} {kind}" for kind, number in sorted(faults.items()))
    print(
        f"{count} seeds in {time.monotonic() - began:.0f} s: {simulated_s / 60:.0f} simulated minutes, {records:,} "
        f"records, {1000 * cpu_s / max(1.0, simulated_s):.0f} ms of processor time for each simulated second"
    )
    print(f"faults: {happened}")
    print(f"seeds that broke a promise: {bad}" + (" (repeat one with --seed)" if bad else ""))
    return 1 if bad else 0


def _found_again(backend: str) -> int:
    bad = 0
    for what, (world, plan) in FOUND.items():
        problems = _simulated(plan, world, backend).problems
        bad += bool(problems)
        print(f"{what}: {'broken again: ' + ', '.join(problems) if problems else 'holds'}", flush=True)
    return 1 if bad else 0


def _look_for_defects(options: argparse.Namespace) -> int:
    """Print a table of what finds each defect, after how many seeds."""
    chosen = [one for one in REGISTRY.values() if options.world in (None, one.world)]
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


def _problems(backend: str, seed: int, world: str) -> dict[str, list[str]]:
    return run(seed, world, backend).problems


def _shrink(plan: Plan, world: str, backend: str) -> int:
    """Print each smaller plan that fails in one of the ways in which this one does."""
    kinds = set(_simulated(plan, world, backend).problems)
    if not kinds:
        print(f"seed {plan.seed} breaks no promise")
        return 0

    def fails(smaller: Plan) -> bool:
        print(".", end="", flush=True)
        return not kinds.isdisjoint(_simulated(smaller, world, backend).problems)

    print(f"{plan}\nbroken: {', '.join(sorted(kinds))}", flush=True)
    shrink(plan, fails, lambda smaller: print(f"\n{smaller}", flush=True))
    print("\nNothing can be dropped from the last one. Add it to FOUND in tests/simulation/found.py.")
    return 1


def _replay(plan: Plan, world: str, backend: str) -> int:
    outcome = _simulated(plan, world, backend)
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
    parser.add_argument("--first", type=int, help="the first of them (default: a random number)")
    parser.add_argument("--seed", type=int, help="simulate this one, and show its history")
    parser.add_argument("--shrink", action="store_true", help="with --seed: make what fails smaller")
    parser.add_argument(
        "--found", action="store_true", help="simulate again what once broke a promise, made smaller"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one for each processor)"
    )
    parser.add_argument("--world", choices=sorted(WORLDS), help="default: consumers; with --defects: all")
    parser.add_argument(
        "--defects",
        choices=("all", "known"),
        nargs="?",
        const="all",
        help="plant each defect in turn, and simulate seeds from 1 on until it is found; "
        "known: from a seed on that is known to find it",
    )
    parser.add_argument("--write", metavar="FILE", help="with --defects: replace the table in this document")
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio")
    parser.add_argument("--stop", action="store_true", help="stop at the first seed that breaks a promise")
    parser.add_argument("--digests", action="store_true", help="print a digest of each seed's history")
    parser.add_argument(
        "--defect",
        choices=sorted(REGISTRY),
        help="plant a defect, to see whether it is found",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
