"""The entry point: lazy imports, missing dependencies, wrong usage, shell completion."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from tests.cli.running import DEADLINE, KSHARE, ROOT, Kshare, assert_refused, kshare, python


def test_entry_point_exists() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, name = scripts["kshare"].partition(":")
    assert callable(getattr(import_module(module), name))


@pytest.mark.lengthy
def test_help_imports_no_slow_modules() -> None:
    done = python(
        "import sys; sys.argv = ['kshare', '--help']\n"
        "from kshare.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "heavy = {'construct', 'rich', 'anyio', 'kshare.dissect', 'kshare.protocol', 'kshare.client'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    assert done.returncode == 0, done.stderr
    assert "Decode bytes of the Kafka protocol" in done.stdout


@pytest.mark.lengthy
@pytest.mark.parametrize("missing", ["typer", "rich", "construct"])
def test_missing_extra_is_reported_on_one_line(missing: str) -> None:
    done = python(
        f"import sys; sys.modules[{missing!r}] = None\n"
        "sys.argv = ['kshare', 'decode', '00']\n"
        "from kshare.cli import main\n"
        "main()"
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"kshare: this needs {missing}: pip install 'kshare[cli]' (in a clone: '.[cli]')\n"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nope"], "No such command 'nope'"),
        (["decode", "--nope"], "No such option: --nope"),
        (["decode", "--hex", "--json", "00"], "--hex and --json can't be combined"),
        (["decode", "--version", "two", "00"], "Invalid value for '--version'"),
        (["decode", "--input", "octal", "00"], "Invalid value for '--input'"),
    ],
)
def test_wrong_usage_is_reported_on_one_line(run: Kshare, arguments: list[str], reason: str) -> None:
    assert_refused(run(*arguments), 2, reason)


def test_usage_is_shown_without_arguments(run: Kshare) -> None:
    done = run()
    assert done.code == 0
    assert "Usage: kshare" in done.out


@pytest.mark.lengthy
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str) -> None:
    done = kshare(environment={"_KSHARE_COMPLETE": f"source_{shell}"})
    assert (done.code, done.err) == (0, "")
    assert "_KSHARE_COMPLETE" in done.out


def test_api_names_are_completed() -> None:
    environment = {
        "_KSHARE_COMPLETE": "complete_bash",
        "COMP_WORDS": "kshare decode --api ShareF",
        "COMP_CWORD": "3",
    }
    assert kshare(environment=environment).out.split() == ["ShareFetch"]


def by_bash(words: str) -> list[str]:
    environment = {
        "_KSHARE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    return kshare(environment=environment).out.split()


def by_zsh(words: str) -> list[str]:
    """Zsh receives a call of `_arguments`: quoted values, most with help after a colon."""
    environment = {"_KSHARE_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": words}
    return re.findall(r'^(?:.*\(\()?"([^"]+)"', kshare(environment=environment).out, re.MULTILINE)


def by_fish(words: str) -> list[str]:
    environment = {
        "_KSHARE_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    return [line.partition("\t")[0] for line in kshare(environment=environment).out.splitlines()]


@pytest.mark.lengthy
@pytest.mark.parametrize("shell", [by_bash, by_zsh, by_fish])
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("kshare dlq re", ["redrive"]),
        ("kshare dlq redrive --settle", ["--settle-others"]),
        ("kshare top --view m", ["members"]),
        ("kshare pcap --error SHARE_SESSION_L", ["SHARE_SESSION_LIMIT_REACHED"]),
    ],
)
def test_commands_options_and_values_are_completed(
    shell: Callable[[str], list[str]], words: str, completed: list[str]
) -> None:
    assert shell(words) == completed


@pytest.mark.lengthy
def test_completion_in_bash(tmp_path: Path) -> None:
    """Sources the script, and simulates the Tab key."""
    program = tmp_path / "kshare"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(KSHARE)} "$@"\n')
    program.chmod(0o755)
    script = kshare(environment={"_KSHARE_COMPLETE": "source_bash"}).out
    words = "COMP_WORDS=(kshare groups reset-offsets --to-e); COMP_CWORD=3"
    keys = f'{words}; _kshare_completion kshare; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\n{keys}"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "--to-earliest\n", "")


def test_closed_standard_output_is_named_in_the_error() -> None:
    command = f"exec {sys.executable} -m kshare decode --list >&-"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "kshare: standard output is closed: redirect it to a file, or to /dev/null\n",
    )
