"""A run that doesn't end is terminated, whether it handles signals or ignores them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tools.runs import ceiling

_STEPS = ((signal.SIGINT, 2.0), (signal.SIGTERM, 1.0), (signal.SIGKILL, 20.0))
_ROOT = Path(__file__).resolve().parents[3]


def _run(code: str, limit: float) -> int:
    return ceiling.run(
        [sys.executable, "-c", code], limit, folder=_ROOT, environment=os.environ, steps=_STEPS
    )


def test_exit_code_of_a_run_in_time() -> None:
    assert _run("raise SystemExit(3)", 60) == 3


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "deafness",
    ["", "signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)"],
    ids=["listens", "deaf"],
)
def test_endless_run_is_terminated(deafness: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert _run(f"import signal, time; {deafness}\ntime.sleep(3600)", 1.5) == ceiling.EXIT_CODE
    said = "\ntools/test: the run didn't end within 0.025 minutes and was ended\n"
    assert capfd.readouterr().err.endswith(said)


@pytest.mark.lengthy
def test_runner_has_a_time_limit() -> None:
    """`tools/test` itself, with a run of pytest that hangs where no test's deadline applies."""
    done = subprocess.run(
        [
            sys.executable,
            _ROOT / "tools" / "test",
            "--ceiling",
            "0.2",
            "-p",
            "tests.tools.runs.endless_plugin",
        ],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == ceiling.EXIT_CODE, done.stderr
    assert done.stderr.endswith("\ntools/test: the run didn't end within 0.2 minutes and was ended\n")


@pytest.mark.lengthy
def test_explanation_stands_behind_what_the_run_prints(capfd: pytest.CaptureFixture[str]) -> None:
    code = "import sys, time\ntry: time.sleep(3600)\nexcept KeyboardInterrupt: sys.stderr.write('...')"
    assert _run(code, 1.5) == ceiling.EXIT_CODE
    assert (
        capfd.readouterr().err == "...\ntools/test: the run didn't end within 0.025 minutes and was ended\n"
    )
