"""What `tools/test` prepares and which arguments it passes to pytest."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tools import bootstrap
from tools.runs import ceiling

ROOT = Path(__file__).parents[2]


class Machine:
    """Records what is prepared and what is run."""

    def __init__(self) -> None:
        self.prepared = ""
        self.arguments: list[str] = []
        self.minutes = 0.0

    def preparing(self, what: str) -> Callable[[], Path]:
        def prepare() -> Path:
            self.prepared = what
            return Path("python")

        return prepare

    def run(self, command: list[str | Path], limit: float, **_: Any) -> int:
        assert [str(word) for word in command[:3]] == ["python", "-m", "pytest"]
        self.arguments = [str(word) for word in command[3:]]
        self.minutes = limit / 60
        return 5


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(bootstrap, "prepare", machine.preparing("brokers"))
    monkeypatch.setattr(bootstrap, "prepare_environment", machine.preparing("packages"))
    monkeypatch.setattr(bootstrap, "install_optional", lambda name: None)
    monkeypatch.setattr(ceiling, "run", machine.run)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: None)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return machine


def program() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("tools_test", str(ROOT / "tools" / "test"))
    spec = importlib.util.spec_from_loader("tools_test", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("given", "prepared", "arguments", "minutes"),
    [
        ([], "brokers", ["--cache-clear", "-n", "5", "--no-loadscope-reorder"], 75),
        (["--long"], "brokers", ["--long"], 600),
        (["tests/state", "-x"], "brokers", ["tests/state", "-x"], 75),
        (["--ceiling", "3"], "brokers", ["--cache-clear", "-n", "5", "--no-loadscope-reorder"], 3),
        (["--quick"], "packages", ["--quick", "-n", "3"], 12),
        (["--quick", "tests/state"], "packages", ["--quick", "tests/state"], 12),
        (["--quick", "--ceiling", "3"], "packages", ["--quick", "-n", "3"], 3),
    ],
)
def test_arguments(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    given: list[str],
    prepared: str,
    arguments: list[str],
    minutes: float,
) -> None:
    monkeypatch.setattr(sys, "argv", ["tools/test", *given])
    assert program().main() == 5
    assert machine.prepared == prepared
    assert machine.arguments == ["--forbid-skips", *arguments]
    assert machine.minutes == minutes
