"""At the end of a long run, the modules and workers are listed that took most time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.runs.small_run import small_run

pytestmark = pytest.mark.lengthy

_TESTS = """
    import subprocess, sys, time
    import tools.runs.times

    tools.runs.times.LONG_S = 0.0

    def compute():
        until = time.process_time() + 1.1
        while time.process_time() < until: pass

    def test_of_this_process(): compute()
    def test_of_a_program():
        subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 1.1: pass"], check=True)
    """


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["one process", "a worker"])
def test_modules_and_workers_are_listed(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "conftest.py").touch()  # with two, pytest asks which plugins apply where
    (tmp_path / "folder" / "test_more.py").write_text("def test_plain(): pass")
    plugin = "" if not workers else "import tools.runs.times\ntools.runs.times.LONG_S = 0.0\n"
    done = small_run(tmp_path, _TESTS, *workers, conftest=plugin)
    table = done.stdout.partition("processor, tests\n")[2]
    rows = table.splitlines()[:2]
    names = [row.split(maxsplit=5)[-1] for row in rows]
    process = "gw0" if workers else "this process"
    assert names == [f"{process}, which ended 0 s before the last one", "test_it.py"], done.stdout
    for row, count in zip(rows, ["3", "2"], strict=True):
        spent_s, _, processor_s, _, tests, *_ = row.split()
        assert int(spent_s) >= 2
        assert int(processor_s) >= 2
        assert tests == count


def test_short_runs_say_nothing(tmp_path: Path) -> None:
    assert "where the time went" not in small_run(tmp_path, "def test_plain(): pass").stdout
