"""Batch markers: what is in them, and what they mean for a task that is repeated."""

from __future__ import annotations

from random import Random

import pytest

from kshare.errors import KshareError
from kshare.producer.records import Headers
from kshare.spark.sink.batch_marker import (
    BatchMarker,
    MarkerKey,
    RowSum,
    check_same_rows,
    marker_to_match,
)
from kshare.spark.sink.row_columns import Row

KEY = MarkerKey("4d2f", 3)


def row(
    value: bytes | None,
    key: bytes | None = None,
    headers: Headers = (),
    topic: str | None = "orders",
    partition: int | None = None,
    timestamp: int | None = None,
) -> Row:
    return (topic, partition, key, value, headers, timestamp)


def test_markers_survive_the_topic() -> None:
    marker = BatchMarker(7, RowSum(503, 2**63 + 5))
    assert BatchMarker.from_bytes(marker.to_bytes()) == marker
    assert MarkerKey.from_bytes(KEY.to_bytes()) == KEY


def test_other_records_are_not_markers() -> None:
    for key in (None, b"", b"orders", b"\xff/x"):
        assert MarkerKey.from_bytes(key) is None
    for value in (b"", b"{}", b"[]", b'{"format": 1, "batch": "x"}'):
        with pytest.raises(KshareError, match="isn't a batch marker"):
            BatchMarker.from_bytes(value)
    with pytest.raises(KshareError, match="format 2 isn't known: use the version of kshare that wrote it"):
        BatchMarker.from_bytes(b'{"format": 2}')


def test_the_sum_does_not_depend_on_the_order_or_the_column_batches() -> None:
    rows = [row(b"%d" % number, b"k%d" % (number % 7)) for number in range(100)]
    mixed = Random(1).sample(rows, 100)
    assert RowSum().plus(rows) == RowSum().plus(mixed[:30]).plus(mixed[30:])


def test_the_sum_differs_if_any_column_does() -> None:
    rows = [
        row(None),
        row(b""),
        row(b"a"),
        row(b"", b"a"),
        row(b"a", b""),
        row(b"a", headers=(("h", None),)),
        row(b"a", headers=(("h", b""),)),
        row(b"a", partition=0),
        row(b"a", timestamp=0),
        row(b"a", topic="shipped"),
    ]
    assert len({RowSum().plus([row]) for row in rows}) == len(rows)
    assert RowSum().plus([row(b"1", b"a"), row(b"2", b"b")]) != RowSum().plus(
        [row(b"1", b"b"), row(b"2", b"a")]
    )


def test_a_repetition_is_recognized_by_query_task_and_batch() -> None:
    marker = BatchMarker(7, RowSum(5, 1))
    markers = {KEY: marker, MarkerKey("other", 3): BatchMarker(9, RowSum())}
    assert marker_to_match(markers, KEY, 7, "markers") == marker
    assert marker_to_match(markers, KEY, 8, "markers") is None
    assert marker_to_match(markers, MarkerKey("4d2f", 4), 7, "markers") is None
    assert marker_to_match({}, KEY, 0, "markers") is None


def test_an_older_batch_is_refused() -> None:
    markers = {MarkerKey("4d2f", 0): BatchMarker(8, RowSum())}
    with pytest.raises(
        KshareError, match="micro-batch 7 of query 4d2f isn't written, because micro-batch 8 was"
    ):
        marker_to_match(markers, KEY, 7, "markers")


def test_other_rows_are_refused() -> None:
    marker = BatchMarker(7, RowSum(5, 1))
    check_same_rows(marker, RowSum(5, 1), KEY)
    with pytest.raises(KshareError, match=r"has 4 rows, and has already written 5\. .* restart the query"):
        check_same_rows(marker, RowSum(4, 1), KEY)
    with pytest.raises(KshareError, match="has already written 5, which were others"):
        check_same_rows(marker, RowSum(5, 2), KEY)
