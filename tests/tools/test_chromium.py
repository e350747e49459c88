"""Where a Chromium for tests is found, and how one is installed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tools import chromium

Commands = list[list[str]]


@pytest.fixture
def empty_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without programs. Returns the only folder of its path."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["chromium"])
    return tmp_path


def add(folder: Path, *programs: str) -> None:
    for program in programs:
        (folder / program).touch(mode=0o755)


def record(monkeypatch: pytest.MonkeyPatch, failing: str = "") -> Commands:
    """Record commands instead of running them; those with the word `failing` fail."""
    commands: Commands = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, failing in command, "", "E: no such package\n")

    monkeypatch.setattr(subprocess, "run", run)
    return commands


@pytest.mark.parametrize("program", ["chromium", "google-chrome"])
def test_a_browser_on_the_path_is_used(
    empty_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], program: str
) -> None:
    add(empty_path, program, "apt-get")
    commands = record(monkeypatch)
    assert chromium.found() == empty_path / program
    assert chromium.main() == 0
    assert commands == []
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("user", "sudo"), [(0, []), (1000, ["sudo", "--non-interactive"])])
def test_the_systems_package_is_installed(
    empty_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, sudo: list[str]
) -> None:
    add(empty_path, "apt-get", "sudo")
    monkeypatch.setattr(os, "geteuid", lambda: user)
    commands = record(monkeypatch, failing="update")
    assert chromium.main() == 0
    asked, (update, install) = commands[:-2], commands[-2:]
    assert asked == ([[*sudo, "true"]] if sudo else [])
    apt_get = [*sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    assert update[: len(apt_get)] == install[: len(apt_get)] == apt_get
    assert update[-1] == "update"
    assert install[-4:] == ["install", "--yes", "--no-install-recommends", "chromium"]


@pytest.mark.parametrize(
    ("programs", "user", "failing", "reason"),
    [
        (["apt-get"], 0, "install", "E: no such package"),
        (["apt-get"], 1000, "", "sudo is missing or asks for a password"),
        (["apt-get", "sudo"], 1000, "true", "sudo is missing or asks for a password"),
        ([], 0, "", "this system has no apt-get"),
    ],
)
def test_without_a_browser_the_reason_is_printed(
    empty_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    programs: list[str],
    user: int,
    failing: str,
    reason: str,
) -> None:
    add(empty_path, *programs)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    record(monkeypatch, failing)
    assert chromium.main() == 1
    said = capsys.readouterr().err
    assert reason in said
    assert chromium.MISSING in said
