"""What the JVM's stack traces tell of a query, in the format of `jstack`: its trigger, and its temporary checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kshare.errors import ConfigError
from kshare.spark.driver import waiting_queries as module
from kshare.spark.driver.waiting_queries import (
    has_temporary_checkpoint,
    is_single_batch,
    new_temporary_checkpoints,
    refuse_single_batches,
    waiting_queries,
)

ENGINE = "\tat org.apache.spark.sql.execution"
WAITING = f"{ENGINE}.python.streaming.PythonStreamingSourceRunner.latestOffset(Source.scala:159)\n"
ONCE = f"{ENGINE}.streaming.SingleBatchExecutor.execute(TriggerExecutor.scala:50)\n"
NEWER_ONCE = f"{ENGINE}.streaming.runtime.SingleBatchExecutor.execute(TriggerExecutor.scala:50)\n"
EVERY = f"{ENGINE}.streaming.ProcessingTimeExecutor.execute(TriggerExecutor.scala:83)\n"
OTHER = "\tat java.lang.Thread.sleep(Native Method)\n"


def test_only_queries_that_wait_for_python_are_found() -> None:
    dump = "\n".join(
        [
            f'"main" #1 prio=5\n{WAITING}',
            f'"stream execution thread for [id = 5c1f-1, runId = 77]" #9 daemon\n{WAITING}{ONCE}',
            f'"stream execution thread for [id = 5c1f-2, runId = 77]" #9 daemon\n{OTHER}',
            f'"stream execution thread for my [id = x] query [id = 5c1f-3, runId = 77]" #9 daemon\n{WAITING}',
            f'"stream execution thread for nothing" #9 daemon\n{WAITING}',
        ]
    )
    found = waiting_queries(dump)
    assert [query.id for query in found] == ["5c1f-1", "5c1f-3", ""]
    assert [query.is_single_batch for query in found] == [True, False, False]
    assert waiting_queries("") == []


def stacks(*queries: str) -> str:
    """Stack traces in the format of `jstack`."""
    threads = [f'"stream execution thread for [id = {at}]" #9\n{text}' for at, text in enumerate(queries)]
    return "\n".join(['"main" #1 prio=5\n\tat Main.main(Main.java)\n', *threads, '"Signal Dispatcher" #4\n'])


@pytest.mark.parametrize(
    ("dump", "found"),
    [
        (stacks(WAITING + ONCE), {True}),
        (stacks(WAITING + NEWER_ONCE), {True}),
        (stacks(WAITING + EVERY), {False}),
        (stacks(WAITING + EVERY, ONCE), {False}),
        (stacks(WAITING + EVERY, WAITING + ONCE), {True, False}),
        (stacks(EVERY), set()),
        ("", set()),
    ],
)
def test_triggers_are_detected_in_stack_traces(dump: str, found: set[bool]) -> None:
    assert {query.is_single_batch for query in waiting_queries(dump)} == found


def test_single_batch_triggers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_single_batch", lambda: True)
    with pytest.raises(ConfigError, match=r"or use PySpark 4\.2 or newer"):
        refuse_single_batches()
    monkeypatch.setattr(module, "is_single_batch", lambda: None)
    refuse_single_batches()


def test_ambiguous_stack_traces_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    both, ours = stacks(WAITING + EVERY, WAITING + ONCE), stacks(WAITING + ONCE)
    said = iter([both, both, ours])
    monkeypatch.setattr(module, "driver_jvm", lambda: 1)
    monkeypatch.setattr(module, "threads", lambda _: next(said))
    assert is_single_batch() is True


def test_without_a_jvm_the_trigger_is_unknown() -> None:
    assert is_single_batch() is None


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
    monkeypatch.setattr(module, "driver_jvm", lambda: 1)
    monkeypatch.setattr(module, "properties", lambda _: {"java.io.tmpdir": str(tmp_path)})
    monkeypatch.setattr(module, "threads", lambda _: said.pop(0) if said[1:] else said[0])
    assert has_temporary_checkpoint() is is_temporary


def test_without_a_jvm_it_is_unknown() -> None:
    assert has_temporary_checkpoint() is None
