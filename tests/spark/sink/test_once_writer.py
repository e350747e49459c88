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
from kshare.testing import Broker
from tests.spark.sink.tasks import connected, found, numbered, options


def task(broker: Broker, batch_id: int, number: int = 0) -> OnceWriter:
    given = options(broker, exactlyOnceTopic="markers")
    name = f"task {number} of micro-batch {batch_id}"
    return OnceWriter(connected(given), given, MarkerKey("4d2f", number), batch_id, name)


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


def test_the_second_of_two_attempts_fences_the_first(broker: Broker) -> None:
    """As with speculation, or an executor that Spark has given up."""

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield numbered(0, 50)
        assert task(broker, 0).write([numbered(0, 80)]) == 80
        yield numbered(50, 80)

    with pytest.raises(KshareError, match="a newer producer has this id"):
        task(broker, 0).write(overtaken())
    assert found(broker) == [*range(80)]


def test_a_commit_without_a_response_is_found_by_the_repetition(broker: Broker) -> None:
    broker.faults.add(EndTxnRequest, cut_after=3, times=1)
    try:
        task(broker, 0).write([numbered(0, 50)])
    except KshareError:
        assert task(broker, 0).write([numbered(0, 50)]) == 0
    assert found(broker) == [*range(50)]


def test_a_batch_that_is_split_differently_fails(broker: Broker) -> None:
    task(broker, 0).write([numbered(0, 50)])
    with pytest.raises(KshareError, match="has 40 rows, and has already written 50"):
        task(broker, 0).write([numbered(0, 40)])
    with pytest.raises(KshareError, match="which were others"):
        task(broker, 0).write([numbered(1, 51)])
    assert found(broker) == [*range(50)]


def test_a_late_task_of_an_older_batch_fails(broker: Broker) -> None:
    task(broker, 1, 0).write([numbered(0, 50)])
    with pytest.raises(KshareError, match="micro-batch 0 of query 4d2f isn't written"):
        task(broker, 0, 1).write([numbered(50, 60)])
    assert found(broker) == [*range(50)]
