"""Changes of source files are noticed once."""

from __future__ import annotations

from kshare.cli.worker.processes import SourceFiles


def test_changes_are_noticed_once() -> None:
    times: dict[str, int | None] = {"a.py": 1, "b.py": 1}
    files = SourceFiles(times.get)
    files.watch(["a.py", "b.py"])
    assert files.changed() == []
    times["a.py"] = 2
    assert files.changed() == ["a.py"]
    assert files.changed() == []


def test_a_file_that_vanishes_and_comes_back_has_changed_only_if_it_is_another() -> None:
    times: dict[str, int | None] = {"a.py": 1}
    files = SourceFiles(times.get)
    files.watch(["a.py"])
    times["a.py"] = None
    assert files.changed() == []
    times["a.py"] = 1
    assert files.changed() == []
    times["a.py"] = 3
    assert files.changed() == ["a.py"]


def test_a_file_that_did_not_exist_appears() -> None:
    times: dict[str, int | None] = {}
    files = SourceFiles(times.get)
    files.watch(["a.py"])
    assert files.changed() == []
    times["a.py"] = 1
    assert files.changed() == ["a.py"]


def test_watching_again_forgets_no_change() -> None:
    times: dict[str, int | None] = {"a.py": 1}
    files = SourceFiles(times.get)
    files.watch(["a.py"])
    times["a.py"] = 2
    files.watch(["a.py"])
    assert files.changed() == ["a.py"]
