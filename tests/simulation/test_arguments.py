"""Options of `tools/simulate`: what can't be meant is refused in a line, before anything is simulated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.command import main

ROOT = Path(__file__).parents[2]
VARIABLES = os.environ | {"KSHARE_FAST": "0", "PYTHONHASHSEED": "0"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--seeds 0", "'0' isn't a whole number of at least 1"),
        ("--seed -1", "'-1' isn't a whole number of at least 0"),
        ("--jobs 0", "'0' isn't a whole number of at least 1"),
        ("--minutes nan", "'nan' isn't a number of minutes above 0"),
        ("--minutes 0", "'0' isn't a number of minutes above 0"),
        ("--seeds 1 --minutes 1", "not allowed with"),
        ("--shrink", "--shrink goes only with --seed"),
        ("--write README.md", "--write goes only with --defects"),
        ("--defects --write nowhere.md", "there is no file nowhere.md"),
        ("--half 1", "--half goes only with --defects"),
        ("--defects --half 2 --write README.md", "--write needs all defects of all worlds"),
        ("--defects --world sync --write README.md", "--write needs all defects of all worlds"),
        ("--seed 1 --seeds 2", "--seeds and --seed don't go together"),
        ("--seed 1 --world all", "--seed needs one --world"),
        ("--found --seed 1", "not allowed with"),
        (
            "--found nothing-like-it",
            "nothing that was found has 'nothing-like-it' in its description",
        ),
        ("--found lock", "'lock' is in several descriptions: records whose lock"),
        ("--seed 0 --seeds 5", "--seeds and --seed don't go together"),
        ("--seed 3 --first 0", "--first and --seed don't go together"),
        ("--seed 1 --jobs 2", "--jobs and --seed don't go together"),
        ("--found --world sync", "--world and --found don't go together"),
        ("--defects --slow", "--slow and --defects don't go together"),
        ("--defect commit_is_hasti", "did you mean commit_is_hasty?"),
        ("--defect nothing_at_all", "docs/reports/planted-defects.md has their names"),
        ("--defect keys_are_ignored --world consumers", "is for --world workers"),
        ("--world sync --backend trio", "--world sync can't have --backend trio"),
        ("--world spark --changes", "--world spark can't have --changes"),
        ("--world sync --slow", "--world sync can't be --slow"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    arguments: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tools/simulate", *arguments.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert not said.out
    assert said.err.startswith("tools/simulate: ")
    assert said.err.count("\n") == 1
    assert message in said.err


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        cwd=ROOT,
        env=VARIABLES,
        text=True,
        capture_output=True,
        timeout=280,
        check=False,
    )


def begin(*arguments: str) -> subprocess.Popen[str]:
    """In a session of its own: Ctrl-C reaches all its processes, and not ours."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.simulation", *arguments],
        cwd=ROOT,
        env=VARIABLES,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.lengthy
def test_a_defect_is_planted_in_its_world_and_the_command_to_repeat_is_told() -> None:
    done = simulate(
        "--defect", "open_is_not_written", "--first", "5", "--seeds", "3", "--stop", "--jobs", "1"
    )
    assert done.returncode == 1, done.stdout
    assert "(producers, asyncio)" in done.stdout
    *_, last = done.stdout.splitlines()
    told, _, command = last.partition(": tools/simulate ")
    assert told == "what happened in the first of them"
    again = simulate(*command.split())
    assert again.returncode == 1
    *_, broke, found = again.stdout.splitlines()
    assert broke.startswith(f"seed {command.split()[-1]} broke 1 promise")
    assert found == "the planted defect open_is_not_written is found"


@pytest.mark.lengthy
def test_worlds_that_are_left_out_are_named() -> None:
    with begin("--world", "all", "--backend", "trio", "--minutes", "1", "--jobs", "1") as program:
        assert program.stdout is not None
        assert program.stdout.readline().startswith("left out: --world sync can't have --backend trio")
        program.terminate()
        program.communicate(timeout=60)


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "arguments", ["--defect released_is_accepted --seed 1 --shrink", "--defects --jobs 2 --world workers"]
)
def test_ctrl_c_ends_what_has_no_totals(arguments: str) -> None:
    with begin(*arguments.split()) as program:
        assert program.stdout is not None
        assert program.stdout.readline()
        os.killpg(program.pid, signal.SIGINT)
        _, said = program.communicate(timeout=60)
    assert said == "tools/simulate: interrupted\n"
    assert program.returncode == 128 + signal.SIGINT


@pytest.mark.lengthy
def test_a_reader_that_goes_away_ends_a_replay() -> None:
    with begin("--seed", "1") as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.readline()
        program.stdout.close()
        assert not program.stderr.read()
        assert program.wait(60) == 128 + signal.SIGPIPE
