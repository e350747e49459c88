"""`takes_turns`: one value of a parameter in each run, all of them within as many days, and in long runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tools.runs.small_run import small_run

pytestmark = pytest.mark.lengthy

TESTS = """
TAKES_TURNS = pytest.mark.takes_turns("fruit")

@TAKES_TURNS
@pytest.mark.parametrize("fruit", ["apple", "pear", "plum"])
@pytest.mark.parametrize("size", [pytest.param(object(), id="1"), pytest.param(lambda: 0, id="2")])
def test_some(fruit, size):
    pass

@pytest.mark.parametrize("fruit", ["apple", "pear", pytest.param("plum", marks=TAKES_TURNS)])
def test_marked_parameter(fruit):
    pass

@pytest.mark.parametrize("fruit", ["apple", "pear"])
def test_all(fruit):
    pass

@pytest.mark.lengthy
@pytest.mark.anyio
async def test_loop():
    pass

@pytest.mark.anyio
async def test_loops():
    pass
"""


def ran(folder: Path, *options: str) -> tuple[set[str], str]:
    """The tests that passed, and what was printed."""
    done = small_run(folder, TESTS, "-v", *options)
    assert done.returncode == 0, done.stdout
    words = (line.replace("PASSED", "").split() for line in done.stdout.splitlines() if "PASSED" in line)
    return {word.partition("::")[2] for line in words for word in line if "::" in word}, done.stdout


ALWAYS = (
    {"test_loops[asyncio]", "test_loops[trio]"}
    | {f"test_all[{fruit}]" for fruit in ("apple", "pear")}
    | {f"test_marked_parameter[{fruit}]" for fruit in ("apple", "pear", "plum")}
)


def test_each_has_its_turn_within_as_many_days(tmp_path: Path) -> None:
    taken = set[str]()
    for day, processes in enumerate(["0", "2", "0"]):
        passed, output = ran(tmp_path, "-n", processes, "--turn", str(day))
        assert passed >= ALWAYS
        today = passed - ALWAYS
        assert sorted(re.split(r"[\[-]", name)[0] for name in today) == [
            "test_loop",
            "test_some",
            "test_some",
        ]
        assert len({name[:11] for name in today}) == 3
        assert f"5 tests had their turn on another day; this was --turn {day}" in output
        taken |= today
    assert len(taken) == 8


def test_long_runs_have_all(tmp_path: Path) -> None:
    passed, output = ran(tmp_path, "--long")
    assert len(passed - ALWAYS) == 8
    assert "another day" not in output


def test_chosen_tests_run_on_any_day(tmp_path: Path) -> None:
    passed, _ = ran(tmp_path, "test_it.py::test_some[1-pear]")
    assert passed == {"test_some[1-pear]"}


def test_a_parameter_that_is_not_in_the_id_is_an_error(tmp_path: Path) -> None:
    tests = """
    @pytest.mark.takes_turns("fruit")
    @pytest.mark.parametrize("fruit", ["apple"], ids=["a"])
    def test_some(fruit):
        pass
    """
    done = small_run(tmp_path, tests)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "test_some[a] can't take turns: its id doesn't have the value of fruit" in done.stderr
