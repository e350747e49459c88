"""Tasks that are repeated, run twice at once, or are split differently: nothing is doubled unseen, nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from kshare.errors import KshareError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import EndTxnRequest, ProduceRequest
from kshare.spark.sink.batch_marker import MarkerKey
from kshare.spark.sink.once_writer import OnceWriter
from kshare.spark.sink.write_options import WriteOptions
from kshare.spark.sink.writers import RowsWritten, StreamWriter
from kshare.testing import Broker
from tests.spark.sink.tasks import column_batch, connected, found, numbered, options


def task(broker: Broker, batch_id: int, number: int = 0) -> OnceWriter:
    given = options(broker, exactlyOnceTopic="markers")
    name = f"task {number} of micro-batch {batch_id}"
    return OnceWriter(connected(given), given, MarkerKey("4d2f", number), batch_id, name)


@pytest.mark.lengthy
def test_a_repeated_task_writes_nothing(broker: Broker) -> None:
    batches = [numbered(0, 50), numbered(50, 80)]
    assert task(broker, 0).write(batches) == 80
    assert task(broker, 0).write(batches) == 0
    assert task(broker, 0, 1).write([numbered(80, 100)]) == 20
    assert task(broker, 1).write([numbered(100, 110)]) == 10
    assert found(broker) == [*range(110)]


def test_an_empty_task_leaves_a_marker_too(broker: Broker) -> None:
    assert task(broker, 0).write([]) == 0
    with pytest.raises(KshareError, match="has 1 rows, and has already written 0"):
        task(broker, 0).write([numbered(0, 1)])


@pytest.mark.lengthy
def test_a_task_that_failed_is_repeated(broker: Broker) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield numbered(0, 50)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        task(broker, 0).write(failing())
    broker.faults.add(ProduceRequest, error=ErrorCode.INVALID_RECORD)
    with pytest.raises(KshareError, match="rows 0 to"):
        task(broker, 0).write([numbered(0, 50)])
    assert found(broker) == []
    assert task(broker, 0).write([numbered(0, 50)]) == 50
    assert found(broker) == [*range(50)]


@pytest.mark.lengthy
def test_the_second_of_two_attempts_fences_the_first(broker: Broker) -> None:
    """As with speculation, or an executor that Spark has given up."""

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield numbered(0, 50)
        assert task(broker, 0).write([numbered(0, 80)]) == 80
        yield numbered(50, 80)

    with pytest.raises(KshareError, match="a newer producer has this id"):
        task(broker, 0).write(overtaken())
    assert found(broker) == [*range(80)]


@pytest.mark.lengthy
def test_a_commit_without_a_response_is_found_by_the_repetition(broker: Broker) -> None:
    broker.faults.add(EndTxnRequest, cut_after=3, times=1)
    try:
        task(broker, 0).write([numbered(0, 50)])
    except KshareError:
        assert task(broker, 0).write([numbered(0, 50)]) == 0
    assert found(broker) == [*range(50)]


@pytest.mark.lengthy
def test_a_batch_that_is_split_differently_fails(broker: Broker) -> None:
    task(broker, 0).write([numbered(0, 50)])
    with pytest.raises(KshareError, match="has 40 rows, and has already written 50"):
        task(broker, 0).write([numbered(0, 40)])
    with pytest.raises(KshareError, match="which were others"):
        task(broker, 0).write([numbered(1, 51)])
    assert found(broker) == [*range(50)]


def test_a_repetition_with_fewer_tasks_is_told(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """The driver only knows when it is too late, because a task doesn't know how many there are."""
    sink = StreamWriter(options(broker, exactlyOnceTopic="markers"))
    first = [task(broker, 0, number) for number in (1, 2)]
    for number, writer in enumerate(first):
        writer.write([numbered(10 * number, 10 * number + 10)])
    sink.commit([RowsWritten(10, writer.highest_before) for writer in first], 0)
    assert not caplog.records
    again = task(broker, 0, 0)
    again.write([numbered(0, 20)])
    sink.commit([RowsWritten(20, again.highest_before)], 0)
    assert "micro-batch 0 was repeated with 1 tasks instead of 3 or more" in caplog.text


@pytest.mark.lengthy
def test_no_row_is_written_to_the_topic_of_markers(broker: Broker) -> None:
    named = {"kafka.bootstrap.servers": broker.bootstrap, "exactlyOnceTopic": "markers"}
    given = WriteOptions.parse(named, is_streaming=True)
    rows = column_batch([b"1"], topic=pa.array(["markers"]))
    writer = OnceWriter(connected(given), given, MarkerKey("4d2f", 0), 0, "task 0")
    with pytest.raises(
        KshareError, match=r"row 0 of task 0 can't be written: the topic markers is for batch markers"
    ):
        writer.write([rows])
    assert found(broker) == []


@pytest.mark.lengthy
def test_a_late_task_of_an_older_batch_fails(broker: Broker) -> None:
    task(broker, 1, 0).write([numbered(0, 50)])
    with pytest.raises(KshareError, match="micro-batch 0 of query 4d2f isn't written"):
        task(broker, 0, 1).write([numbered(50, 60)])
    assert found(broker) == [*range(50)]
