"""Contenders in their own processes: their output, their CPU time, and their end."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tools.benches import programs
from tools.benches.child import Child, ChildError, children, next_line

DEADLINE_S = 30.0


def _python(source: str) -> list[str | Path]:
    return [sys.executable, "-c", source]


def test_lines_of_all_children_are_in_one_queue_with_their_child() -> None:
    with children([_python("print('a', end='')"), _python("print('b')")]) as ((one, two), lines):
        said = [next_line(lines, time.monotonic() + DEADLINE_S) for _ in range(4)]
    assert {(line.child, line.text) for line in said} == {(one, "a"), (two, "b"), (one, None), (two, None)}


def test_end_of_the_block_closes_the_childs_input() -> None:
    with children([_python("import sys; sys.stdin.read(); print('over')")]) as ((child,), _):
        pass
    assert child.end() is child.usage
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


def test_resource_usage_is_known_when_the_child_has_ended() -> None:
    with children([_python("sum(range(3_000_000))")]) as ((child,), _):
        usage = child.end()
    assert usage.ru_utime + usage.ru_stime > 0


def test_failure_includes_the_childs_error_output() -> None:
    with children([_python("raise SystemExit('no broker here')")]) as ((child,), lines):
        assert next_line(lines, time.monotonic() + DEADLINE_S).text is None
        assert "no broker here" in str(child.failure("ended early"))


def test_silent_child_is_an_error_at_the_deadline() -> None:
    with (
        children([_python("import sys; sys.stdin.read()")]) as (_, lines),
        pytest.raises(ChildError, match="printed anything in time"),
    ):
        next_line(lines, time.monotonic())


@pytest.mark.lengthy
def test_contender_returns_its_cpu_seconds() -> None:
    source = "from tools.benches.contenders.program import end_of_input; end_of_input().wait()"
    with children([_python(source)]) as ((child,), _):
        assert isinstance(child, Child)
        assert 0 < child.cpu_seconds() <= child.cpu_seconds()


def test_program_is_built_once_for_each_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    built: list[Path] = []

    def build(folder: Path) -> None:
        (folder / "program").write_text("x", encoding="utf-8")
        built.append(folder)

    first = programs.built(b"source", "it", build)
    assert (first / "program").exists()
    assert programs.built(b"source", "it", build) == first
    assert programs.built(b"other", "it", build) != first
    assert len(built) == 2


def test_failed_build_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def build(folder: Path) -> None:
        (folder / "half").write_text("x", encoding="utf-8")
        raise RuntimeError("doesn't compile")

    with pytest.raises(RuntimeError, match="doesn't compile"):
        programs.built(b"source", "it", build)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
