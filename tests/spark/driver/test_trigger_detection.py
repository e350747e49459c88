"""Detecting a query's trigger from the JVM's stack traces, as in PySpark 4.0.5 and 4.1.4."""

from __future__ import annotations

import pytest

from kshare.errors import ConfigError
from kshare.spark.driver import trigger_detection
from kshare.spark.driver.trigger_detection import refuse_single_batches, single_batches_in

ENGINE = "\tat org.apache.spark.sql.execution"
WAITING = f"{ENGINE}.python.streaming.PythonStreamingSourceRunner.latestOffset(Source.scala:159)\n"
ONCE = f"{ENGINE}.streaming.SingleBatchExecutor.execute(TriggerExecutor.scala:50)\n"
NEWER_ONCE = f"{ENGINE}.streaming.runtime.SingleBatchExecutor.execute(TriggerExecutor.scala:50)\n"
EVERY = f"{ENGINE}.streaming.ProcessingTimeExecutor.execute(TriggerExecutor.scala:83)\n"


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
    assert single_batches_in(dump) == found


def test_single_batch_triggers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trigger_detection, "is_single_batch", lambda: True)
    with pytest.raises(ConfigError, match=r"or use PySpark 4\.2 or newer"):
        refuse_single_batches()
    monkeypatch.setattr(trigger_detection, "is_single_batch", lambda: None)
    refuse_single_batches()


def test_ambiguous_stack_traces_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    both, ours = stacks(WAITING + EVERY, WAITING + ONCE), stacks(WAITING + ONCE)
    said = iter([both, both, ours])
    monkeypatch.setattr(trigger_detection, "driver_jvm", lambda: 1)
    monkeypatch.setattr(trigger_detection, "threads", lambda _: next(said))
    assert trigger_detection.is_single_batch() is True


def test_without_a_jvm_the_trigger_is_unknown() -> None:
    assert trigger_detection.is_single_batch() is None
