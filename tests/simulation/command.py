"""Simulates a cluster and its clients, once for each seed, and judges what they did.

tools/simulate --seeds 1000                 many seeds: names those that break a promise
tools/simulate --world all --minutes 480    all worlds, for a night
tools/simulate --seeds 1000 --changes       topics, groups and stored data change as well
tools/simulate --seeds 20 --slow            little happens, for hours of simulated time
tools/simulate --seed 17                    one seed again: shows what happened when
tools/simulate --seed 17 --shrink           looks for a smaller simulation that fails in the same way
tools/simulate --found                      all again that once broke a promise
tools/simulate --found TEXT                 the one whose description has this text: shows what happened when
tools/simulate --defects                    plants one mistake after another: is each found?
tools/simulate --defect commit_is_hasty     plants this one

A seed is repeated only with the same --world, --backend, --slow and --changes.
Exit codes: 0 if all promises were kept, or, with --defects, all planted defects found; 1 if not; 2 for wrong options;
130 after Ctrl-C. With --defect, a promise that is broken is what one wants to see, and the code is 1.
docs/trust.md says what the promises are, and CONTRIBUTING.md how to read a replay.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import multiprocessing
import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from random import SystemRandom
from typing import NamedTuple

from tests.helpers.whole_numbers import at_least
from tests.simulation import arguments
from tests.simulation.consumers import ConsumerWorld
from tests.simulation.defects import HEADER, REGISTRY, search, write_table
from tests.simulation.found import FOUND
from tests.simulation.interrupts import Interrupts, leave_to_parent
from tests.simulation.planting import Defect
from tests.simulation.producers import ProducerWorld
from tests.simulation.shrinking import shrink
from tests.simulation.spark import SparkWorld
from tests.simulation.sync import SyncWorld
from tests.simulation.totals import Totals, listed
from tests.simulation.workers import WorkerWorld
from tests.simulation.world import Outcome, Plan, simulate

_MOST_SHOWN = 3
_HIGHEST = 10**9
_SEEDS = 100
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

    def __str__(self) -> str:
        special = [*(["slow"] if self.is_slow else []), *(["changes"] if self.has_changes else [])]
        return ", ".join([self.world, *special, self.backend])

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
    # Producers of programs that were killed say, when they are deleted, that they weren't closed.
    logging.getLogger("kshare").addHandler(logging.NullHandler())
    if options.defects:
        return _look_for_defects(options)
    if options.defect:
        REGISTRY[options.defect].plant()
    if options.found is not None:
        chosen = arguments.found(options.found)
        if options.found:
            world, plan = FOUND[chosen[0]]
            print(f"{chosen[0]} ({world}, made smaller: --seed {plan.seed} isn't the same)")
            return _replay(plan, Choice(world, options.backend))
        return _found_again(chosen, options.backend)
    worlds = _worlds(options)
    if options.seed is not None:
        choice = _choice(options, worlds[0])
        if options.shrink:
            return _shrink(options.seed, choice, options.defect)
        code = _replay(choice.plan(options.seed), choice)
        _tell_of_defect(options, is_found=bool(code))
        return code
    for world in sorted({*WORLDS} - {*worlds}) if options.world == "all" else ():
        print(f"left out: {'; '.join(_refused(options, world))}", flush=True)
    is_good, interrupts = True, Interrupts()
    minutes = options.minutes / len(worlds) if options.minutes else None
    for world in worlds:
        if interrupts.is_asked:
            print(f"not begun: {world}", flush=True)
            continue
        is_good &= _run_many(options, _choice(options, world), minutes, interrupts)
    return (interrupts.exit_code or 0) if is_good else 1


def _choice(options: argparse.Namespace, world: str) -> Choice:
    return Choice(world, options.backend, options.slow, options.changes, not options.uncollected)


def _run_many(
    options: argparse.Namespace, choice: Choice, minutes: float | None, interrupts: Interrupts
) -> bool:
    """Returns whether no seed broke a promise. `minutes`: for so long, whatever the number of seeds is."""
    first = SystemRandom().randrange(_HIGHEST) if options.first is None else options.first
    print(f"first seed: {first} ({choice})", flush=True)
    began, totals = time.monotonic(), Totals()

    def seeds() -> Iterator[int]:
        for seed in count(first):
            is_last = (
                seed - first >= (options.seeds or _SEEDS)
                if minutes is None
                else time.monotonic() - began >= 60 * minutes
            )
            if is_last or interrupts.is_asked:
                return
            yield seed

    def tell() -> None:
        print("\n".join(totals.lines(time.monotonic() - began, _repeating(options, choice))), flush=True)

    interrupts.before_exit = tell
    told = began
    for result in results(seeds(), options.jobs, choice):
        _add(totals, result, options)
        if result.problems and options.stop:
            break
        if time.monotonic() - told > _PROGRESS_EVERY_S:
            told = time.monotonic()
            print(f"... {totals.progress}", flush=True)
    _tell_of_defect(options, is_found=bool(totals.bad))
    tell()
    return not totals.bad


def _tell_of_defect(options: argparse.Namespace, *, is_found: bool) -> None:
    if options.defect:
        print(f"the planted defect {options.defect} is {'found' if is_found else 'not found'}", flush=True)


def _repeating(options: argparse.Namespace, choice: Choice) -> str:
    """The command that does a seed again, but for its number."""
    words = ["tools/simulate", "--world", choice.world, "--backend", choice.backend]
    words += [f"--{name}" for name in ("slow", "changes", "uncollected") if getattr(options, name)]
    return " ".join([*words, *(["--defect", options.defect] if options.defect else []), "--seed"])


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


def _found_again(chosen: Iterable[str], backend: str) -> int:
    bad = 0
    for what in chosen:
        world, plan = FOUND[what]
        problems = Choice(world, backend).simulate(plan).problems
        bad += bool(problems)
        print(f"{what}: {'broken again: ' + ', '.join(problems) if problems else 'holds'}", flush=True)
    return 1 if bad else 0


def _look_for_defects(options: argparse.Namespace) -> int:
    """Print a table of what finds each defect, after how many seeds."""
    chosen = [
        defect
        for defect in REGISTRY.values()
        if options.world in (None, "all", defect.world) and options.backend in WORLDS[defect.world].backends
    ]
    if options.half:
        chosen = chosen[options.half - 1 :: 2]
    print(HEADER, flush=True)
    searches = []
    for result in search(
        chosen, partial(_problems, options.backend), options.jobs, is_known=options.defects == "known"
    ):
        print(result.row + (f" {', '.join(result.others)}" if not result.is_found else ""), flush=True)
        searches.append(result)
    found = sum(result.is_found for result in searches)
    print(f"{found} of {len(searches)} planted defects are found")
    if options.write:
        write_table(options.write, searches)
    return 0 if found == len(searches) else 1


def _problems(backend: str, seed: int, defect: Defect) -> dict[str, list[str]]:
    return run(seed, Choice(defect.world, backend, has_changes=defect.has_changes)).problems


def _shrink(seed: int, choice: Choice, defect: str | None) -> int:
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
    print("\nNothing can be dropped from the last one.", end="")
    print(
        " It breaks a promise because of the defect."
        if defect
        else " Add it to FOUND in tests/simulation/found.py. `tools/simulate --found TEXT`, with a part of what you "
        "write there, shows what happens in it."
    )
    return 1


def _replay(plan: Plan, choice: Choice) -> int:
    outcome = choice.simulate(plan)
    width = max((len(line.split(" ", 2)[1]) for line in outcome.history), default=0)
    for line in outcome.history:
        at, who, what = line.split(" ", 2)
        print(f"{at} {who:{width}} {what}")
    print(outcome.plan)
    print(f"what happened: {listed(sorted(outcome.verdict.counts.items()))}")
    for kind, found in outcome.problems.items():
        for problem in found:
            print(f"{kind}: {problem}")
    print(
        f"seed {plan.seed} broke {len(outcome.problems) or 'no'} promise{'s' * (len(outcome.problems) > 1)}"
    )
    return 1 if outcome.problems else 0


def _parser() -> arguments.Parser:
    first_line, _, examples = __doc__.partition("\n")
    parser = arguments.Parser(
        prog="tools/simulate",
        usage="tools/simulate [options]",
        description=first_line,
        epilog=examples.strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_what(parser)
    _add_many(parser)
    _add_instead(parser)
    return parser


def _add_what(parser: arguments.Parser) -> None:
    what = parser.add_argument_group("what to simulate")
    what.add_argument(
        "--world",
        choices=(*sorted(WORLDS), "all"),
        help="which programs there are (default: consumers; with --defects: all)",
    )
    what.add_argument(
        "--backend", choices=("asyncio", "trio"), default="asyncio", help="event loop (default: asyncio)"
    )
    what.add_argument(
        "--changes", action="store_true", help="topics, groups and stored data change as well; nodes crash"
    )
    what.add_argument("--slow", action="store_true", help="little happens, for hours of simulated time")
    what.add_argument(
        "--uncollected",
        action="store_true",
        help="without Python's garbage collector: nothing may depend on it",
    )
    what.add_argument(
        "--defect",
        type=arguments.defect,
        metavar="NAME",
        help="plant a defect, in its world: is it found? (names: docs/reports/planted-defects.md)",
    )


def _add_many(parser: arguments.Parser) -> None:
    many = parser.add_argument_group("many seeds")
    how_many = many.add_mutually_exclusive_group()
    how_many.add_argument(
        "--seeds",
        type=at_least(1),
        metavar="N",
        help=f"how many, of each world (default: {_SEEDS})",
    )
    how_many.add_argument(
        "--minutes",
        type=arguments.minutes,
        metavar="N",
        help="begin seeds for so long instead; with --world all, each world gets an equal share",
    )
    many.add_argument(
        "--first", type=at_least(0), metavar="SEED", help="the first one (default: a random number)"
    )
    many.add_argument("--stop", action="store_true", help="stop at the first seed that breaks a promise")
    many.add_argument(
        "--digests", action="store_true", help="print a digest of each seed's history, to compare runs"
    )
    many.add_argument(
        "--jobs", type=at_least(1), metavar="N", help="processes (default: one for each processor)"
    )


def _add_instead(parser: arguments.Parser) -> None:
    instead = parser.add_argument_group("instead of many seeds")
    modes = instead.add_mutually_exclusive_group()
    modes.add_argument("--seed", type=at_least(0), help="simulate this one, and show its history")
    modes.add_argument(
        "--found",
        nargs="?",
        const="",
        metavar="TEXT",
        help="simulate again what once broke a promise, made smaller; with TEXT, only the one whose description has "
        "this text, and show its history",
    )
    modes.add_argument(
        "--defects",
        choices=("all", "known"),
        nargs="?",
        const="all",
        help="plant each defect in turn, and simulate seeds from 1 on until it is found; "
        "known: from a seed on that is known to find it, which takes less time",
    )
    instead.add_argument(
        "--half", type=int, choices=(1, 2), help="with --defects: every second one, from this one on"
    )
    instead.add_argument("--shrink", action="store_true", help="with --seed: make what fails smaller")
    instead.add_argument(
        "--write", type=Path, metavar="FILE", help="with --defects: replace the table in this document"
    )


def _options() -> argparse.Namespace:
    parser = _parser()
    options = parser.parse_args()
    for conflict in arguments.conflicts(options):
        parser.error(conflict)
    if options.defect:
        options.world = REGISTRY[options.defect].world
        options.changes |= REGISTRY[options.defect].has_changes
    if options.world != "all":
        for refused in _refused(options, options.world or "consumers"):
            parser.error(refused)
    if options.write and not options.write.is_file():
        parser.error(f"--write: there is no file {options.write}")
    options.jobs = options.jobs or os.cpu_count() or 1
    return options


def _worlds(options: argparse.Namespace) -> list[str]:
    """Those that are meant, and can be what else is wanted."""
    if options.world != "all":
        return [options.world or "consumers"]
    return [world for world in sorted(WORLDS) if not [*_refused(options, world)]]


def _refused(options: argparse.Namespace, world: str) -> Iterator[str]:
    kind = WORLDS[world]
    if options.backend not in kind.backends:
        yield f"--world {world} can't have --backend {options.backend}: its clients always run {kind.backends[0]}"
    if options.changes and not kind.changes:
        yield f"--world {world} can't have --changes"
    if options.slow and not kind.can_be_slow:
        yield f"--world {world} can't be --slow"
