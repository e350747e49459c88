"""Packages are installed with uv, told where from as pip is, and with pip where uv isn't or doesn't work."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tools import packages

CONFIGURED = """\
global.index-url='https://packages.example/simple'
install.find-links='/srv/wheels\\n/srv/more'
:env:.cert='/etc/ssl/own.crt'
global.timeout='30'
"""


class Commands:
    """Commands are recorded instead of run."""

    def __init__(self, failing: str = "") -> None:
        self.failing = failing
        self.seen: list[tuple[str, Mapping[str, str]]] = []

    def run(self, command: list[str | Path], env: Mapping[str, str], **_: Any) -> Any:
        program, *_rest = words = [str(word) for word in command[2:]]
        if words[1] != "config":
            self.seen.append((" ".join(words), env))
        return subprocess.CompletedProcess(command, int(program == self.failing), CONFIGURED)


@pytest.fixture
def python(tmp_path: Path) -> Path:
    (tmp_path / "uv").touch()
    return tmp_path / "python"


def _installed(python: Path, monkeypatch: pytest.MonkeyPatch, failing: str = "") -> Commands:
    commands = Commands(failing)
    monkeypatch.setattr(subprocess, "run", commands.run)
    assert packages.install(python, "six", variables={"A": "1"}) is (failing != "pip")
    return commands


def test_uv_is_told_where_packages_come_from(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ((command, variables),) = _installed(python, monkeypatch).seen
    places = "--default-index https://packages.example/simple --find-links /srv/wheels --find-links /srv/more"
    assert command == f"uv pip install --quiet --python {python} {places} six"
    assert variables == {"A": "1", "SSL_CERT_FILE": "/etc/ssl/own.crt"}


def test_pip_installs_what_uv_cannot(
    python: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = _installed(python, monkeypatch, failing="uv")
    assert [command.split()[0] for command, _ in commands.seen] == ["uv", "pip"]
    assert "pip tries it" in capsys.readouterr().err


def test_pip_installs_where_there_is_no_uv(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (python.parent / "uv").unlink()
    ((command, _),) = _installed(python, monkeypatch).seen
    assert command == "pip install --quiet --no-compile six"
    _installed(python, monkeypatch, failing="pip")
