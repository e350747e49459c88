"""With --forbid-skips, a run fails if tests were skipped or none ran."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.lengthy

_CONFTEST = Path(__file__).with_name("conftest.py")


def _run(folder: Path, body: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(_CONFTEST.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    long: x\n", encoding="utf-8")
    (folder / "test_it.py").write_text(f"import pytest\n{body}\n", encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(_CONFTEST.parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_run_without_skips_passes(tmp_path: Path) -> None:
    assert _run(tmp_path, "def test_a(): pass", "--forbid-skips").returncode == 0


@pytest.mark.parametrize(
    "skipping",
    [
        "def test_b(): pytest.skip('x')",
        "@pytest.mark.skip\ndef test_b(): pass",
        "@pytest.mark.xfail\ndef test_b(): assert 0",
        "pytest.importorskip('no_such_module')",
    ],
    ids=["in the body", "by a mark", "xfail", "whole module"],
)
def test_a_skip_fails_the_run(tmp_path: Path, skipping: str) -> None:
    (tmp_path / "test_other.py").write_text("def test_a(): pass", encoding="utf-8")
    assert _run(tmp_path, skipping).returncode == 0
    done = _run(tmp_path, skipping, "--forbid-skips")
    assert done.returncode == 6
    assert "1 skipped, though skips are forbidden" in done.stdout


def test_a_skip_is_told_from_a_failure(tmp_path: Path) -> None:
    """Else the tests that failed would be run once more, and the skip be forgotten."""
    body = "def test_a(): assert 0\ndef test_b(): pytest.skip('x')"
    assert _run(tmp_path, body).returncode == 1
    assert _run(tmp_path, body, "--forbid-skips").returncode == 6


def test_a_run_without_tests_fails(tmp_path: Path) -> None:
    body = "@pytest.mark.long\ndef test_a(): pass"
    assert _run(tmp_path, body, "--forbid-skips").returncode != 0
    assert _run(tmp_path, body, "--forbid-skips", "--long").returncode == 0
    assert _run(tmp_path, "", "--forbid-skips").returncode != 0
