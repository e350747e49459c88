"""Reading ranges into Arrow: exactly their records, whatever happens to the log and the brokers."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Sequence
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from kshare.broker.faults import corrupt_records
from kshare.errors import KshareError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ApiVersionsRequest, FetchRequest
from kshare.spark.executor.connections import close_connections
from kshare.spark.executor.reader import DataLoss, read_arrow
from kshare.spark.options import ReadOptions
from kshare.spark.ranges import RecordRange
from kshare.testing import Broker
from tests.spark.queries import eventually


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(nodes=2) as cluster:
        yield cluster
        close_connections()


def options(broker: Broker, **more: str) -> ReadOptions:
    given = {"kafka.bootstrap.servers": broker.bootstrap, "group": "g", "subscribe": "orders", **more}
    return ReadOptions.parse(given, is_streaming=False)


def topic_id(broker: Broker, topic: str) -> str:
    return str(UUID(bytes=broker.call(lambda: broker.state.cluster.topics[topic].id)))


def fill(broker: Broker, topic: str, partitions: int, batches: int, size: int) -> None:
    broker.create_topic(topic, partitions)
    for partition in range(partitions):
        for start in range(0, batches * size, size):
            broker.produce(
                topic, [b"%d" % offset for offset in range(start, start + size)], partition=partition
            )


def ranges(broker: Broker, topic: str, *spans: tuple[int, int, int]) -> list[RecordRange]:
    """Ranges from partition, first and last offset. The delivery count is the first offset + 1, to identify it."""
    return [
        RecordRange(topic, topic_id(broker, topic), partition, first, last, first + 1)
        for partition, first, last in spans
    ]


def rows(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def places(batches: Iterator[pa.RecordBatch]) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows(batches)]


def expected(spans: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
    return [(partition, offset) for partition, first, last in spans for offset in range(first, last + 1)]


def test_exactly_the_ranges_are_read(broker: Broker) -> None:
    fill(broker, "exact", 3, batches=8, size=10)
    spans = [(0, 3, 3), (0, 5, 24), (0, 71, 79), (1, 0, 79), (2, 30, 39)]
    wanted = ranges(broker, "exact", *spans)
    found = rows(read_arrow(options(broker, deliveryCount="true"), wanted[::-1]))
    assert [(row["partition"], row["offset"]) for row in found] == expected(spans)
    assert all(row["value"] == b"%d" % row["offset"] and row["topic"] == "exact" for row in found)
    for range_ in wanted:
        mine = [row for row in found if row["partition"] == range_.partition]
        counts = {row["deliveryCount"] for row in mine if range_.first <= row["offset"] <= range_.last}
        assert counts == {range_.delivery_count}


def test_nothing_to_read(broker: Broker) -> None:
    assert list(read_arrow(options(broker), [])) == []


@pytest.mark.lengthy
def test_records_are_combined_into_large_batches(broker: Broker) -> None:
    fill(broker, "large", 1, batches=30, size=1000)
    found = list(read_arrow(options(broker), ranges(broker, "large", (0, 500, 29_499))))
    assert [batch.num_rows for batch in found] == [10_500, 10_000, 8_500]


def test_columns_are_those_of_sparks_kafka_source(broker: Broker) -> None:
    broker.create_topic("columns", 1)
    broker.produce("columns", [b"v", None], key=b"k", headers=[("h", b"1"), ("n", None)])
    broker.produce("columns", [b"w"])
    found = list(read_arrow(options(broker, includeHeaders="true"), ranges(broker, "columns", (0, 0, 2))))
    assert [field.name for field in found[0].schema] == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
    ]
    first, second, third = rows(iter(found))
    assert first["headers"] == [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]
    assert (second["key"], second["value"], second["timestampType"]) == (b"k", None, 0)
    assert (third["key"], third["headers"]) == (None, None)


@pytest.mark.lengthy
def test_leaders_move_and_connections_break_while_reading(broker: Broker) -> None:
    fill(broker, "moving", 2, batches=60, size=400)
    spans = [(0, 7, 23_990), (1, 0, 23_999)]
    reading = read_arrow(options(broker), ranges(broker, "moving", *spans))
    found = [next(reading)]
    for number, batch in enumerate(reading):
        found.append(batch)
        broker.move_leader("moving", number % 2, 1 + number % 2)
        broker.hang_up()
    assert places(iter(found)) == expected(spans)


def test_later_tasks_reuse_connections(broker: Broker) -> None:
    fill(broker, "kept", 1, batches=1, size=5)
    wanted = ranges(broker, "kept", (0, 0, 4))
    assert len(rows(read_arrow(options(broker), wanted))) == 5

    handshakes = broker.faults.add(ApiVersionsRequest, times=None)
    try:
        assert len(rows(read_arrow(options(broker), wanted))) == 5
    finally:
        handshakes.stop()
    assert handshakes.hits == 0


def test_records_deleted_by_retention_fail_the_task_or_are_left_out(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    fill(broker, "gone", 1, batches=4, size=10)
    wanted = ranges(broker, "gone", (0, 2, 4), (0, 6, 33))
    broker.call(lambda: broker.state.cluster.partition("gone", 0).log.delete_before(20))
    with pytest.raises(
        DataLoss, match=r"gone\[0\]: offsets 2 to 4, 6 to 19 \(17 in all\) are gone.*begins at 20"
    ):
        list(read_arrow(options(broker), wanted))
    with caplog.at_level(logging.WARNING, "kshare.spark"):
        found = places(read_arrow(options(broker, failOnDataLoss="false"), wanted))
    assert found == expected([(0, 20, 33)])
    assert "continuing without them" in caplog.text


def test_a_batch_is_cut_at_the_log_start_offset(broker: Broker) -> None:
    fill(broker, "within", 1, batches=4, size=10)
    wanted = ranges(broker, "within", (0, 2, 4), (0, 6, 33))
    broker.call(lambda: broker.state.cluster.partition("within", 0).log.delete_before(17))
    found = list(read_arrow(options(broker, failOnDataLoss="false", deliveryCount="true"), wanted))
    assert places(iter(found)) == expected([(0, 17, 33)])
    assert {row["deliveryCount"] for row in rows(iter(found))} == {7}


def test_a_recreated_topic_is_not_mistaken_for_the_old_one(broker: Broker) -> None:
    fill(broker, "again", 1, batches=1, size=10)
    wanted = ranges(broker, "again", (0, 0, 9))
    broker.delete_topic("again")
    fill(broker, "again", 1, batches=1, size=10)
    with pytest.raises(DataLoss, match="the topic was deleted"):
        list(read_arrow(options(broker), wanted))
    assert list(read_arrow(options(broker, failOnDataLoss="false"), wanted)) == []


def test_an_offset_beyond_the_end_of_the_log_is_lost(broker: Broker) -> None:
    fill(broker, "short", 1, batches=1, size=10)
    with pytest.raises(DataLoss, match=r"offsets 15 to 20 \(6 in all\) are gone: the log ends at 10"):
        list(read_arrow(options(broker), ranges(broker, "short", (0, 15, 20))))


def test_errors_name_partition_and_offset(broker: Broker) -> None:
    fill(broker, "refused", 1, batches=1, size=10)
    wanted = ranges(broker, "refused", (0, 0, 9))
    broker.faults.add(FetchRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(
        KshareError, match=r"can't read refused\[0\] at offset 0: .*TOPIC_AUTHORIZATION_FAILED"
    ):
        list(read_arrow(options(broker), wanted))
    broker.faults.add(FetchRequest, change=corrupt_records)
    with pytest.raises(KshareError, match=r"can't read refused\[0\] at offset 10: .*checksum"):
        list(read_arrow(options(broker), wanted))
    assert len(rows(read_arrow(options(broker), wanted))) == 10


def test_fetches_of_the_next_partitions_are_on_their_way(broker: Broker) -> None:
    fill(broker, "ahead", 6, batches=1, size=10)
    wanted = ranges(broker, "ahead", *((partition, 0, 9) for partition in range(6)))
    assert len(rows(read_arrow(options(broker), wanted))) == 60  # finds the leaders
    fetches = broker.faults.add(FetchRequest, times=None)
    reading = read_arrow(options(broker), wanted)
    try:
        next(reading)
        eventually(lambda: fetches.hits == 4, "three more fetches have arrived")
    finally:
        fetches.stop()
    assert len(rows(reading)) == 50


def test_closing_the_generator_ends_its_requests(broker: Broker) -> None:
    fill(broker, "left", 1, batches=30, size=1000)
    reading = read_arrow(options(broker), ranges(broker, "left", (0, 0, 29_999)))
    assert next(reading).num_rows == 10_000
    assert isinstance(reading, Generator)
    reading.close()
    assert list(reading) == []
