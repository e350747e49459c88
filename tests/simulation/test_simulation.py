"""Simulated clusters: fresh seeds keep all promises, a seed is the same each time, and planted defects are found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.consumer_storm.defects import DEFECTS as STORM_DEFECTS
from tests.simulation.consumer_defects import DEFECTS as CONSUMER_DEFECTS
from tests.simulation.found import FOUND
from tests.simulation.producer_defects import DEFECTS as PRODUCER_DEFECTS
from tests.simulation.spark_defects import DEFECTS as SPARK_DEFECTS
from tests.simulation.worker_defects import DEFECTS as WORKER_DEFECTS

ROOT = Path(__file__).parents[2]
FRESH = {"consumers": 15, "producers": 15, "spark": 6, "workers": 6}
"""How many seeds: those of Spark and of workers take longest."""
OF_BLOCKING_CONSUMERS = "sync_accepts_ranges"
"""Only async consumers are simulated."""
DEFECTS = {
    name: one for name, one in STORM_DEFECTS.items() if name != OF_BLOCKING_CONSUMERS
} | CONSUMER_DEFECTS
MOST_SEEDS = 20
FIRST_OF_SPARK = {"fenced_writers_go_on": 24, "plans_are_accepted_before_they_are_logged": 13}
"""Few queries have the setting and the faults that these take. All others begin with seed 1."""
WORLDS = pytest.mark.parametrize("world", ["consumers", "producers", "spark", "workers"])
BOTH = pytest.mark.parametrize("backend", ["asyncio", "trio"])

pytestmark = [pytest.mark.lengthy, pytest.mark.timeout(300)]


def simulate(*arguments: str) -> tuple[int, str]:
    """Its exit code and output."""
    variables = os.environ | {"KSHARE_FAST": "0", "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=variables, check=False, text=True, capture_output=True, timeout=280
    )
    return done.returncode, done.stdout + done.stderr


@BOTH
@WORLDS
def test_fresh_seeds_break_no_promise(world: str, backend: str) -> None:
    code, output = simulate("--seeds", str(FRESH[world]), "--world", world, "--backend", backend)
    assert code == 0, output
    assert f"{FRESH[world]} seeds in " in output


@BOTH
@WORLDS
def test_a_seed_is_the_same_each_time(world: str, backend: str) -> None:
    seeds = ("--seeds", "3", "--first", "6", "--jobs", "1", "--digests")
    arguments = (*seeds, "--world", world, "--backend", backend)
    histories = [
        [line for line in simulate(*arguments)[1].split("\n") if len(line.split(" ")) == 2] for _ in range(2)
    ]
    assert len(histories[0]) == 3
    assert histories[0] == histories[1]


@BOTH
def test_what_was_found_once_holds(backend: str) -> None:
    code, output = simulate("--found", "--backend", backend)
    assert code == 0, output
    assert output.count("holds") == len(FOUND)


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found(defect: str) -> None:
    code, output = simulate(
        "--seeds", str(MOST_SEEDS), "--first", "1", "--jobs", "1", "--stop", "--defect", defect
    )
    assert code == 1, output
    assert f": {DEFECTS[defect][1]}: " in output
    assert "failed" not in output


@pytest.mark.parametrize("defect", PRODUCER_DEFECTS)
def test_a_defect_of_producers_is_found(defect: str) -> None:
    code, output = simulate(
        *("--world", "producers", "--seeds", str(MOST_SEEDS), "--first", "116", "--jobs", "1", "--stop"),
        *("--defect", defect),
    )
    assert code == 1, output
    assert f": {PRODUCER_DEFECTS[defect][1]}: " in output
    assert "failed" not in output


@pytest.mark.parametrize("defect", WORKER_DEFECTS)
def test_a_defect_of_workers_is_found(defect: str) -> None:
    code, output = simulate(
        *("--world", "workers", "--seeds", str(MOST_SEEDS), "--first", "1", "--jobs", "1", "--stop"),
        *("--defect", defect),
    )
    assert code == 1, output
    assert f": {WORKER_DEFECTS[defect][1]}: " in output
    assert "failed" not in output


@pytest.mark.parametrize("defect", SPARK_DEFECTS)
def test_a_defect_of_the_spark_source_is_found(defect: str) -> None:
    first = FIRST_OF_SPARK.get(defect, 1)
    code, output = simulate(
        *("--world", "spark", "--seeds", str(MOST_SEEDS), "--first", str(first), "--jobs", "1", "--stop"),
        *("--defect", defect),
    )
    assert code == 1, output
    assert f": {SPARK_DEFECTS[defect][1]}: " in output
    assert "failed" not in output


def test_a_replay_tells_what_happened_when() -> None:
    code, output = simulate("--seed", "6")
    assert code == 0, output
    assert "consumer-0 did" in output
    assert "broker     " in output
