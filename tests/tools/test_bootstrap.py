"""A fresh checkout gets a virtual environment once, and again when the files that define it change."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tools import bootstrap, packages

PROJECT = """
[project]
name = "kshare"
dependencies = ["anyio>=4", "crc32c"]
[project.optional-dependencies]
cli = ["rich"]
web = ["kshare[cli]", "h11"]
dev = ["kshare[cli,web]", "kshare-like", "anyio>=4", "cypcap; sys_platform == 'linux'"]
"""


class Machine:
    """A checkout whose commands are recorded instead of run."""

    failing = ""
    """The module whose command fails."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.commands: list[list[str]] = []
        (root / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
        (root / "kshare").mkdir()

    def run(self, command: list[str | Path], complaint: str) -> None:
        words = [str(word) for word in command]
        self.commands.append(words[1:4])
        if "venv" in words:
            (self.root / ".venv" / "bin").mkdir(parents=True)
            (self.root / ".venv" / "bin" / "python").touch()
        if words[2] == self.failing:
            raise bootstrap.BootstrapError(complaint)

    def install(self, python: Path, *wanted: str | Path, variables: Mapping[str, str]) -> bool:
        what = "compile" if "KSHARE_REQUIRE_COMPILED" in variables else "install"
        self.commands.append(["-m", f"packages {what}", *map(str, wanted)])
        return self.failing != f"packages {what}"

    def try_to_run(self, command: list[str | Path], **_: Any) -> None:
        self.commands.append([str(word) for word in command[1:4]])


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    monkeypatch.setattr(bootstrap, "ENVIRONMENT", tmp_path / ".venv")
    monkeypatch.setattr(bootstrap, "_run", machine.run)
    monkeypatch.setattr(packages, "install", machine.install)
    monkeypatch.setattr(packages, "prepare", lambda *_: None)
    monkeypatch.setattr(subprocess, "run", machine.try_to_run)
    return machine


MAKE = ["-m", "venv"]
INSTALL = ["-m", "packages install", "anyio>=4", "crc32c", "rich", "h11", "kshare-like"]
INSTALL.append("cypcap; sys_platform == 'linux'")


def _compile(machine: Machine) -> list[str]:
    return ["-m", "packages compile", "--no-deps", "-e", str(machine.root)]


def _said(machine: Machine) -> list[list[str]]:
    bootstrap.prepare_environment()
    said = [command[:2] if command[:2] == MAKE else command for command in machine.commands]
    machine.commands.clear()
    return said


def test_environment_is_created_once(machine: Machine) -> None:
    assert _said(machine) == [MAKE, INSTALL, _compile(machine)]
    assert _said(machine) == []


def test_half_an_environment_is_removed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every later run took it for a whole one, and failed."""

    def interrupt(command: list[str | Path], complaint: str) -> None:
        machine.run(command, complaint)
        raise KeyboardInterrupt

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(bootstrap, "_run", interrupt)
        with pytest.raises(KeyboardInterrupt):
            bootstrap.prepare_to_run("trio")
    assert not (machine.root / ".venv").exists()
    machine.commands.clear()
    assert _said(machine) == [MAKE, INSTALL, _compile(machine)]


@pytest.mark.parametrize("name", ["pyproject.toml", "setup.py", "kshare/record.pxd", "kshare/record.py"])
def test_environment_is_updated_when_its_sources_change(machine: Machine, name: str) -> None:
    (machine.root / "kshare" / "record.pxd").touch()
    _said(machine)
    with (machine.root / name).open("a") as source:
        source.write("# changed")
    assert _said(machine) == [INSTALL, _compile(machine)]
    assert _said(machine) == []


def test_plain_modules_need_no_update(machine: Machine) -> None:
    _said(machine)
    (machine.root / "kshare" / "plain.py").touch()
    assert _said(machine) == []


def test_old_python_is_refused(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    with pytest.raises(bootstrap.BootstrapError, match=r"needs Python 3\.11 or newer"):
        bootstrap.prepare_environment()


def test_missing_ensurepip_is_explained(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_spec(name: str) -> Any:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    with pytest.raises(bootstrap.BootstrapError, match="python3-venv"):
        bootstrap.prepare_environment()


def test_everything_is_installed_and_tests_are_compiled_once(machine: Machine) -> None:
    bootstrap.prepare()
    modules = [command[1] for command in machine.commands]
    assert modules[0] == "venv"
    assert modules.index("packages install") < modules.index("tools.kafka")
    assert modules.index("packages compile") < modules.index("pytest")
    again = ["tools.chromium", "tools.kafka", "tools.older_spark", "tools.redis_server"]
    assert sorted(modules[1:]) == sorted(["packages install", "packages compile", "pytest", *again])
    machine.commands.clear()
    bootstrap.prepare()
    assert sorted(command[1] for command in machine.commands) == again


@pytest.mark.parametrize(
    "module", ["packages install", "packages compile", "tools.kafka", "tools.older_spark"]
)
def test_what_cannot_be_installed_is_said(machine: Machine, module: str) -> None:
    machine.failing = module
    with pytest.raises(bootstrap.BootstrapError, match=r"can't be (installed|compiled)"):
        bootstrap.prepare()
