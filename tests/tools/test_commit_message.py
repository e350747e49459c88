"""The commit-msg hook: accepted and refused messages."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tools.commit_message import complaints

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "message",
    [
        "Refuse endless intervals",
        "Refuse endless intervals\n\nKafka refuses them, too.\n",
        "Docs: say in plain words what newcomers stumbled over",
        "tools/bench: embed the chart",
        "Pass on what was read",
        "Discuss it",
        "x" * 71,
        "Merge branch 'r5' into main, which is a subject that Git has written and that is longer than ours",
        'Revert "Added something"',
        "fixup! Added something",
        "Add a file\n# Please enter the commit message.\n# Lines with # are ignored",
        "Add a file\n\n# ------------------------ >8 ------------------------\ndiff --git a b",
    ],
)
def test_accepted_messages(message: str) -> None:
    assert list(complaints(message)) == []


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ("", "there is no subject"),
        ("# only a comment\n", "there is no subject"),
        ("x" * 72, "the subject has 72 characters: keep it under 72"),
        ("Add a file.", "the subject ends with a full stop"),
        ("Add a file\nand say why", "a blank line is missing between the subject and the body"),
    ],
)
def test_refused_messages(message: str, complaint: str) -> None:
    assert list(complaints(message)) == [complaint]


@pytest.mark.parametrize(
    "subject",
    [
        "Added a file",
        "Adding a file",
        "Adds a file",
        "Fixes",
        "Docs: fixed a link",
        "The session keeps its epoch",
        "What is asked next",
        "*** ",
    ],
)
def test_subjects_not_in_the_imperative_are_refused(subject: str) -> None:
    (complaint,) = complaints(subject)
    assert "in the imperative" in complaint


@pytest.mark.lengthy
@pytest.mark.parametrize(("message", "code"), [("Add a file\n", 0), ("Added a file\n", 1)])
def test_hook_is_called_as_git_calls_it(tmp_path: Path, message: str, code: int) -> None:
    (tmp_path / "COMMIT_EDITMSG").write_text(message, encoding="utf-8")
    command = [sys.executable, "-m", "tools.commit_message", str(tmp_path / "COMMIT_EDITMSG")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code
    assert ("imperative" in done.stderr) is bool(code)


def test_hooks_are_the_gates_of_the_ci() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (repository,) = config["repos"]
    entries = {hook["entry"]: hook.get("stages", config["default_stages"]) for hook in repository["hooks"]}
    gates = re.search(r"for gate in (.*); do", (ROOT / ".ci/run").read_text(encoding="utf-8"))
    assert gates is not None
    wanted = {f".venv/bin/{gate}": ["pre-commit"] for gate in shlex.split(gates[1])}
    assert entries == {**wanted, ".venv/bin/python -m tools.commit_message": ["commit-msg"]}
    assert {"pre-commit", "commit-msg"} <= set(config["default_install_hook_types"])
