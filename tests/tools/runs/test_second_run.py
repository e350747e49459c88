"""A few tests that failed are run once more; many aren't, and neither is a run that failed for another reason."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.runs.second_run import FAILED, MOST, repeat_failed


def note_failures(folder: Path, count: int) -> None:
    cache = folder / ".pytest_cache/v/cache/lastfailed"
    cache.parent.mkdir(parents=True)
    cache.write_text(json.dumps({f"tests/test_a.py::test_{number}": True for number in range(count)}))


@pytest.mark.parametrize("second", [0, 1, 124])
def test_what_the_second_run_says_counts(tmp_path: Path, second: int) -> None:
    note_failures(tmp_path, MOST)
    exit_code, note = repeat_failed(tmp_path, FAILED, lambda failed: second if len(failed) == MOST else 3)
    assert exit_code == second
    assert ("passed alone" in note) == (second == 0)
    assert all(f"tests/test_a.py::test_{number}" in note for number in range(MOST))


@pytest.mark.parametrize(("failed", "first"), [(0, 1), (MOST + 1, 1), (1, 0), (1, 2), (1, 6), (1, 124)])
def test_no_second_run(tmp_path: Path, failed: int, first: int) -> None:
    if failed:
        note_failures(tmp_path, failed)
    assert repeat_failed(tmp_path, first, lambda _: pytest.fail("not to be run")) == (first, "")


@pytest.mark.lengthy
def test_pytest_runs_only_what_failed(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]")
    (tmp_path / "test_it.py").write_text(
        "import pathlib\ndef test_a(): pass\ndef test_b():\n    assert pathlib.Path('second').exists()\n"
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-q", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    def second(failed: list[str]) -> int:
        (tmp_path / "second").touch()
        done = run(*failed)
        assert "1 passed" in done.stdout
        return done.returncode

    assert repeat_failed(tmp_path, run("--cache-clear").returncode, second) == (
        0,
        "these tests failed beside others, and passed alone; their first failure is shown above:\n"
        "  test_it.py::test_b",
    )
