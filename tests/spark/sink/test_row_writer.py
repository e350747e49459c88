"""Writing rows: all are confirmed at the end, and errors name the rows, the task and the partition."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kshare.producer.partitioner import partition_for
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import MetadataRequest, MetadataResponse, ProduceRequest
from kshare.spark.sink.kept_writers import kept_writer
from kshare.spark.sink.row_writer import RowsNotWritten, RowWriter
from kshare.testing import Broker
from tests.spark.sink.tasks import column_batch, connected, found, numbered, options


def write(broker: Broker, *batches: pa.RecordBatch, topic: str | None = "orders") -> None:
    given = options(broker)
    shared = connected(given)
    with kept_writer(shared, given.writing) as writer:
        RowWriter(shared, writer, given.writing, topic, "task 3").write(batches)


@pytest.mark.lengthy
def test_all_rows_are_written(broker: Broker) -> None:
    write(broker, numbered(0, 700), numbered(700, 700), numbered(700, 1000))
    assert found(broker) == [*range(1000)]


def test_partitions_topics_and_timestamps_of_rows(broker: Broker) -> None:
    broker.create_topic("others", 1)
    columns = {
        "topic": pa.array(["orders", "others", "orders"]),
        "partition": pa.array([1, None, 0], pa.int32()),
        "key": pa.array(["a", None, None]),
    }
    write(broker, column_batch([b"0", b"1", b"2"], **columns), topic=None)
    assert [record.value for record in broker.records("orders")] == [b"2", b"0"]
    assert [record.value for record in broker.records("others")] == [b"1"]


@pytest.mark.parametrize("has_keys", [True, False])
def test_partitions_that_are_added_are_used_by_later_tasks(
    broker: Broker, has_keys: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their writer is that of earlier tasks."""

    def hide(response: MetadataResponse) -> None:
        for topic in response.topics:
            del topic.partitions[1:]

    def used_partitions() -> int:
        keys = pa.array([f"{n}" if has_keys else None for n in range(50)], pa.string())
        for _ in range(1 if has_keys else 20):
            write(broker, column_batch([b"x"] * 50, key=keys))
        return sum(record.offset == 0 for record in broker.records("orders"))

    before = broker.faults.add(MetadataRequest, times=None, change=hide)
    assert used_partitions() == 1
    before.stop()
    monkeypatch.setattr("kshare.producer.topics.MAX_AGE_S", 0.0)
    assert used_partitions() == 2


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"partition": pa.array([0, 5], pa.int32())},
            r"rows 4 to 4 of task 3 that go to this partition aren't confirmed: orders\[5\]: .* no partition 5",
        ),
        ({"topic": pa.array(["orders", None])}, "row 4 of task 3 can't be written: the topic is null"),
        (
            {"timestamp": pa.array([0, -5000], pa.timestamp("us", tz="UTC"))},
            "row 4 of task 3 can't be written: timestamp must be",
        ),
    ],
)
def test_a_row_that_cant_be_written(broker: Broker, columns: dict[str, pa.Array], message: str) -> None:
    topic = None if "topic" in columns else "orders"
    before = numbered(0, 3)
    if topic is None:
        before = before.append_column("topic", pa.array(["orders"] * 3))
    with pytest.raises(RowsNotWritten, match=message):
        write(broker, before, column_batch([b"3", b"4"], **columns), topic=topic)


def test_rows_that_a_broker_refuses(broker: Broker) -> None:
    broker.faults.add(ProduceRequest, error=ErrorCode.INVALID_RECORD, times=None)
    partition = pa.array([1] * 5, pa.int32())
    with pytest.raises(
        RowsNotWritten,
        match=r"rows 0 to 4 of task 3 that go to this partition aren't confirmed: writing to orders\[1\]",
    ):
        write(broker, column_batch([b"x"] * 5, partition=partition))


def test_an_unknown_topic(broker: Broker) -> None:
    with pytest.raises(
        RowsNotWritten,
        match=r"rows 0 to 1 of task 3 that go to this partition aren't confirmed: bad topic!: ",
    ):
        write(broker, numbered(0, 2), topic="bad topic!")


def test_keys_choose_the_partition_as_the_producer_does(broker: Broker) -> None:
    keys = [b"order %d" % number for number in range(50)]
    write(broker, column_batch(keys, key=pa.array(keys, pa.binary())))
    expected = sorted(keys, key=lambda key: partition_for(key, 2))
    assert [record.key for record in broker.records("orders")] == expected


def test_a_header_needs_a_name(broker: Broker) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[], [{"key": None, "value": b""}]], kind)
    with pytest.raises(RowsNotWritten, match="row 1 of task 3 can't be written: headers must be pairs"):
        write(broker, column_batch([b"0", b"1"], headers=headers))


@pytest.mark.lengthy
def test_more_rows_than_the_buffer_holds_are_sent_meanwhile(broker: Broker) -> None:
    given = options(broker, kafka_buffer_memory="20000", kafka_batch_size="4000")
    shared = connected(given)
    with kept_writer(shared, given.writing) as writer:
        RowWriter(shared, writer, given.writing, "orders", "task 3").write([numbered(0, 5000)])
    assert found(broker) == [*range(5000)]
