"""`takes_turns`: one value of a parameter in each run, all of them within as many days, and in long runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.runs.small_run import small_run

pytestmark = pytest.mark.lengthy

TESTS = """
TAKES_TURNS = pytest.mark.takes_turns("fruit")

@TAKES_TURNS
@pytest.mark.parametrize("fruit", ["apple", "pear", "plum"])
@pytest.mark.parametrize("size", [1, 2])
def test_some(fruit, size):
    pass

@pytest.mark.parametrize("fruit", ["apple", "pear", pytest.param("plum", marks=TAKES_TURNS)])
def test_marked_parameter(fruit):
    pass

@pytest.mark.parametrize("fruit", ["apple", "pear"])
def test_all(fruit):
    pass
"""


def ran(folder: Path, *options: str) -> tuple[set[str], str]:
    """The tests that passed, and what was printed."""
    done = small_run(folder, TESTS, "-v", *options)
    assert done.returncode == 0, done.stdout
    words = (line.replace("PASSED", "").split() for line in done.stdout.splitlines() if "PASSED" in line)
    return {word.partition("::")[2] for line in words for word in line if "::" in word}, done.stdout


ALWAYS = {f"test_all[{fruit}]" for fruit in ("apple", "pear")} | {
    f"test_marked_parameter[{fruit}]" for fruit in ("apple", "pear", "plum")
}


def test_each_has_its_turn_within_as_many_days(tmp_path: Path) -> None:
    taken = set[str]()
    for day, processes in enumerate(["0", "2", "0"]):
        passed, output = ran(tmp_path, "-n", processes, "--turn", str(day))
        assert passed >= ALWAYS
        today = passed - ALWAYS
        assert {name.partition("-")[0] for name in today} == {"test_some[1", "test_some[2"}
        assert len(today) == 2
        assert f"4 tests had their turn on another day; this was --turn {day}" in output
        taken |= today
    assert len(taken) == 6


def test_long_runs_have_all(tmp_path: Path) -> None:
    passed, output = ran(tmp_path, "--long")
    assert len(passed - ALWAYS) == 6
    assert "another day" not in output


def test_chosen_tests_run_on_any_day(tmp_path: Path) -> None:
    passed, _ = ran(tmp_path, "test_it.py::test_some[1-pear]")
    assert passed == {"test_some[1-pear]"}
