"""What a JVM's stacks say about a query's trigger, as PySpark 4.0.5 and 4.1.4 have them."""

from __future__ import annotations

import subprocess

import pytest
from pyspark.sql import SparkSession

from kshare.errors import ConfigError
from kshare.spark import trigger_detection
from kshare.spark.trigger_detection import refuse_single_batches, single_batches_in

ENGINE = "\tat org.apache.spark.sql.execution"
WAITING = f"{ENGINE}.python.streaming.PythonStreamingSourceRunner.latestOffset(Source.scala:159)\n"
ONCE = f"{ENGINE}.streaming.SingleBatchExecutor.execute(TriggerExecutor.scala:50)\n"
NEWER_ONCE = f"{ENGINE}.streaming.runtime.SingleBatchExecutor.execute(TriggerExecutor.scala:50)\n"
EVERY = f"{ENGINE}.streaming.ProcessingTimeExecutor.execute(TriggerExecutor.scala:83)\n"


def stacks(*queries: str) -> str:
    """As `jstack` prints them."""
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
def test_what_stacks_say(dump: str, found: set[bool]) -> None:
    assert single_batches_in(dump) == found


def test_what_cant_be_served_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trigger_detection, "is_single_batch", lambda: True)
    with pytest.raises(ConfigError, match=r"or use PySpark 4\.2 or newer"):
        refuse_single_batches()
    monkeypatch.setattr(trigger_detection, "is_single_batch", lambda: None)
    refuse_single_batches()


def test_other_queries_at_the_same_point_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    both, ours = stacks(WAITING + EVERY, WAITING + ONCE), stacks(WAITING + ONCE)
    said = iter([both, both, ours])
    monkeypatch.setattr(trigger_detection, "_jvm", lambda: 1)
    monkeypatch.setattr(trigger_detection, "_threads", lambda _: next(said))
    assert trigger_detection.is_single_batch() is True


def test_nobody_above_is_a_jvm() -> None:
    assert trigger_detection.is_single_batch() is None


def test_a_jvm_tells_its_stacks(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    dump = trigger_detection._threads(jvm.java.lang.ProcessHandle.current().pid())
    assert dump is not None
    assert '"main"' in dump


def test_who_would_die_of_the_question_is_not_asked() -> None:
    with subprocess.Popen(["sleep", "60"]) as deaf:
        assert trigger_detection._threads(deaf.pid) is None
        assert deaf.poll() is None
        deaf.kill()
