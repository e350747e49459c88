"""`tools/simulate` prepares what simulations need, and nothing else, and then becomes them."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from tools import bootstrap

ROOT = Path(__file__).parents[2]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    """Its exit code."""
    monkeypatch.setattr(sys, "argv", ["tools/simulate", *arguments])
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "tools" / "simulate"), run_name="__main__")
    return ended.value.code


def test_it_becomes_the_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child would get Ctrl-C as well, and be killed before it has printed what was simulated."""
    needed: list[str] = []
    became: list[Any] = []

    def prepare(*besides: str) -> Path:
        needed.extend(besides)
        return Path("python")

    monkeypatch.setattr(bootstrap, "prepare_to_run", prepare)
    monkeypatch.setattr(os, "chdir", lambda folder: became.append(folder))
    monkeypatch.setattr(os, "execve", lambda *all_of_it: became.append(all_of_it))
    run(monkeypatch, "--seed", "17")
    folder, (python, command, variables) = became
    assert folder == ROOT
    assert python == Path("python")
    assert command == ["python", "-m", "tests.simulation", "--seed", "17"]
    assert (variables["KSHARE_FAST"], variables["PYTHONHASHSEED"]) == ("0", "0")
    assert {requirement.partition(">")[0] for requirement in needed} == {"pyarrow", "pyspark", "trio"}


@pytest.mark.parametrize(
    ("problem", "code"), [(bootstrap.BootstrapError("see above."), 2), (KeyboardInterrupt(), 130)]
)
def test_what_cannot_be_prepared_is_said_in_a_line(
    problem: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def prepare(*_: str) -> Path:
        raise problem

    monkeypatch.setattr(bootstrap, "prepare_to_run", prepare)
    assert run(monkeypatch) == code
    assert capsys.readouterr().err.count("\n") == 1
