"""Telling a temporary checkpoint from a lost one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kshare.spark.driver import temporary_checkpoint
from kshare.spark.driver.temporary_checkpoint import has_temporary_checkpoint, new_temporary_checkpoints

WAITING = "\tat org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner.latestOffset(a)\n"


def dump(*queries: str) -> str:
    return "\n".join(
        f'"stream execution thread for [id = {query}, runId = 1]" #9\n{WAITING}' for query in queries
    )


def temporary(folder: Path, query: str, *, completed: int = 0) -> None:
    checkpoint = folder / f"temporary-of-{query}"
    (checkpoint / "commits").mkdir(parents=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": query}), encoding="utf-8")
    for batch in range(completed):
        (checkpoint / "commits" / str(batch)).touch()


def test_only_new_temporary_checkpoints_are_found(tmp_path: Path) -> None:
    temporary(tmp_path, "new")
    temporary(tmp_path, "running", completed=2)
    for name, text in (("temporary-damaged", "{"), ("temporary-other", "{}"), ("checkpoint", '{"id": "a"}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metadata").write_text(text, encoding="utf-8")
    assert new_temporary_checkpoints(tmp_path) == {"new"}
    assert new_temporary_checkpoints(tmp_path / "nothing") == set()


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("dumps", "is_temporary"),
    [
        ([dump("new")], True),
        ([dump("new", "too")], True),
        ([dump("running")], False),
        ([dump("kept")], False),
        ([dump("new", "kept"), dump("new")], True),
        ([dump("new", "kept")], None),
        ([""], False),
        ([None], False),
    ],
)
def test_our_query_is_among_those_that_wait(
    dumps: list[str | None], is_temporary: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary(tmp_path, "new")
    temporary(tmp_path, "too")
    temporary(tmp_path, "running", completed=1)
    said = [*dumps]
    monkeypatch.setattr(temporary_checkpoint, "driver_jvm", lambda: 1)
    monkeypatch.setattr(temporary_checkpoint, "properties", lambda _: {"java.io.tmpdir": str(tmp_path)})
    monkeypatch.setattr(temporary_checkpoint, "threads", lambda _: said.pop(0) if said[1:] else said[0])
    assert has_temporary_checkpoint() is is_temporary


def test_without_a_jvm_it_is_unknown() -> None:
    assert has_temporary_checkpoint() is None
