"""The topic of batch markers: it is created, read once, and read as far as it was committed before."""

from __future__ import annotations

import pytest

from kshare.errors import ConfigError, KshareError
from kshare.producer.records import NewRecord
from kshare.producer.settings import WriterSettings
from kshare.producer.writer import RecordWriter
from kshare.spark.executor.connections import Connections
from kshare.spark.sink.batch_marker import BatchMarker, MarkerKey, RowSum
from kshare.spark.sink.marker_log import MarkerLog
from kshare.testing import Broker
from tests.spark.sink.tasks import connected, options

KEY = MarkerKey("4d2f", 0)


def log_of(shared: Connections) -> MarkerLog:
    return MarkerLog(shared.router, shared.reader(is_committed_only=True, rack=None), "markers")


def read(shared: Connections, log: MarkerLog, limit: float = 30) -> dict[MarkerKey, BatchMarker]:
    return dict(shared.submit(log.read, limit).result(60))


def mark(broker: Broker, batch_id: int, key: MarkerKey = KEY) -> BatchMarker:
    marker = BatchMarker(batch_id, RowSum(batch_id, 1))
    broker.produce("markers", [marker.to_bytes()], key=key.to_bytes())
    return marker


def test_the_topic_is_created_compacted_and_with_one_partition(broker: Broker) -> None:
    shared = connected(options(broker))
    assert read(shared, log_of(shared)) == {}
    assert broker.call(lambda: len(broker.state.cluster.topics["markers"].partitions)) == 1
    with pytest.raises(ConfigError, match="records of a compacted topic must have keys"):
        broker.produce("markers", [b"x"])


def test_newer_markers_replace_older_ones(broker: Broker) -> None:
    shared = connected(options(broker))
    log = log_of(shared)
    read(shared, log)
    first, other = mark(broker, 1), mark(broker, 1, MarkerKey("4d2f", 1))
    assert read(shared, log) == {KEY: first, MarkerKey("4d2f", 1): other}
    second = mark(broker, 2)
    broker.produce("markers", [b"of another program"], key=b"orders")
    assert read(shared, log) == read(shared, log_of(shared)) == {KEY: second, MarkerKey("4d2f", 1): other}


@pytest.mark.lengthy
def test_a_topic_that_was_created_again_starts_over(broker: Broker) -> None:
    shared = connected(options(broker))
    log = log_of(shared)
    read(shared, log)
    mark(broker, 5)
    assert read(shared, log)
    broker.delete_topic("markers")
    assert read(shared, log) == {}


def test_other_records_are_an_error(broker: Broker) -> None:
    shared = connected(options(broker))
    log = log_of(shared)
    read(shared, log)
    broker.produce("markers", [b"order"], key=b"order/7")
    with pytest.raises(KshareError, match=r"can't read markers\[0\] at offset 0: .* isn't a batch marker"):
        read(shared, log)


@pytest.mark.lengthy
def test_an_open_transaction_is_waited_for_until_the_limit(broker: Broker) -> None:
    shared = connected(options(broker))
    log = log_of(shared)
    read(shared, log)
    settings = WriterSettings(transactional_id="another")
    marker = BatchMarker(3, RowSum(1, 1))
    with shared.entered(RecordWriter(shared.router, settings)) as writer:
        with shared.entered(writer.transaction()):
            record = NewRecord(marker.to_bytes(), KEY.to_bytes(), (), -1)
            shared.submit(writer.append, "markers", 0, [record]).result(30)
            with pytest.raises(KshareError, match=r"a transaction in markers\[0\] has been open for 0.1 s"):
                read(shared, log, 0.1)
        assert read(shared, log) == {KEY: marker}


def test_markers_must_not_be_deleted(broker: Broker) -> None:
    """A query that is stopped for longer than that would write its last micro-batch twice."""
    broker.create_topic("markers", settings={"cleanup.policy": "delete"})
    shared = connected(options(broker))
    with pytest.raises(
        KshareError, match=r"markers deletes batch markers \(cleanup.policy=delete, retention"
    ):
        read(shared, log_of(shared))
    broker.set_topic_config("markers", {"cleanup.policy": "delete", "retention.ms": "-1"})
    assert read(shared, log_of(shared)) == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"a/" + b"9" * 5_000, b"{}"),
        (b"a/1", b'{"format": 1, "batch": Infinity, "rows": 1, "checksum": "0"}'),
        (b"a/1", b'{"format":' + b"[" * 100_000),
    ],
    ids=["a long number", "infinity", "deep"],
)
def test_odd_records_of_another_program(broker: Broker, key: bytes, value: bytes) -> None:
    shared = connected(options(broker))
    read(shared, log_of(shared))
    broker.produce("markers", [value], key=key)
    try:
        assert read(shared, log_of(shared)) == {}
    except KshareError as error:
        assert "Use a topic that nothing else writes to" in str(error)
