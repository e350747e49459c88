"""Filters that Spark pushes down: which are claimed, and what they leave of ranges."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from kshare.spark.pushdown import push
from kshare.spark.range_filters import RangeFilters
from kshare.spark.ranges import RecordRange

OFFSET, PARTITION, TOPIC, TIMESTAMP = ("offset",), ("partition",), ("topic",), ("timestamp",)
RANGES = [
    RecordRange("orders", "1", 0, 0, 9, 1),
    RecordRange("orders", "1", 0, 20, 29, 2),
    RecordRange("orders", "1", 1, 5, 14, 3),
    RecordRange("refunds", "2", 0, 0, 4, 1),
]
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
MOMENT_MS = 1_767_323_045_678

# Each is claimed, and stands beside the same question in Python.
EXACT: list[tuple[Filter, str]] = [
    (EqualTo(OFFSET, 7), "offset == 7"),
    (EqualNullSafe(OFFSET, 7), "offset == 7"),
    (GreaterThan(OFFSET, 7), "offset > 7"),
    (GreaterThanOrEqual(OFFSET, 7), "offset >= 7"),
    (LessThan(OFFSET, 7), "offset < 7"),
    (LessThanOrEqual(OFFSET, 7), "offset <= 7"),
    (GreaterThan(OFFSET, 100), "offset > 100"),
    (LessThan(OFFSET, -1), "offset < -1"),
    (In(OFFSET, (21, 3, 4, 3, 99)), "offset in (21, 3, 4, 99)"),
    (Not(In(OFFSET, (0, 3, 4, 29))), "offset not in (0, 3, 4, 29)"),
    (Not(EqualTo(OFFSET, 7)), "offset != 7"),
    (Not(LessThan(OFFSET, 7)), "offset >= 7"),
    (EqualTo(PARTITION, 1), "partition == 1"),
    (Not(EqualTo(PARTITION, 1)), "partition != 1"),
    (GreaterThan(PARTITION, 0), "partition > 0"),
    (GreaterThanOrEqual(PARTITION, 1), "partition >= 1"),
    (LessThan(PARTITION, 1), "partition < 1"),
    (LessThanOrEqual(PARTITION, 0), "partition <= 0"),
    (In(PARTITION, (1, 2)), "partition in (1, 2)"),
    (EqualTo(TOPIC, "orders"), "topic == 'orders'"),
    (In(TOPIC, ("orders", "x")), "topic in ('orders', 'x')"),
    (GreaterThan(TOPIC, "p"), "topic > 'p'"),
    (StringStartsWith(TOPIC, "or"), "topic.startswith('or')"),
    (StringEndsWith(TOPIC, "ds"), "topic.endswith('ds')"),
    (StringContains(TOPIC, "fun"), "'fun' in topic"),
    (Not(StringContains(TOPIC, "fun")), "'fun' not in topic"),
    (IsNotNull(OFFSET), "True"),
    (Not(IsNotNull(TOPIC)), "False"),
]


def rows(ranges: list[RecordRange]) -> list[tuple[str, int, int, int]]:
    return [
        (one.topic, one.partition, offset, one.delivery_count)
        for one in ranges
        for offset in range(one.first, one.last + 1)
    ]


@pytest.mark.parametrize(("pushed", "question"), EXACT)
def test_a_claimed_filter_is_applied_fully(pushed: Filter, question: str) -> None:
    filters, rest = push([pushed], RangeFilters())
    assert rest == []
    names = ("topic", "partition", "offset")
    wanted = [row for row in rows(RANGES) if eval(question, {}, dict(zip(names, row, strict=False)))]
    assert rows(filters.apply(RANGES)) == wanted


@pytest.mark.parametrize(
    "pushed",
    [
        EqualTo(OFFSET, None),
        EqualTo(OFFSET, 7.5),
        EqualTo(PARTITION, True),
        In(OFFSET, (1, None)),
        Not(In(PARTITION, (1, None))),
        EqualTo(TOPIC, b"orders"),
        StringContains(OFFSET, "1"),
        StringContains(PARTITION, "1"),
        EqualTo(("key",), b"1"),
        IsNull(("key",)),
        IsNotNull(("value",)),
        IsNotNull(("headers", "key")),
        Not(EqualTo(("value",), b"1")),
        LessThan(TIMESTAMP, MOMENT),
        Not(GreaterThan(TIMESTAMP, MOMENT)),
        EqualTo(TIMESTAMP, MOMENT.replace(tzinfo=None)),
        GreaterThan(TIMESTAMP, datetime(1969, 1, 1, tzinfo=UTC)),
        In(TIMESTAMP, ()),
    ],
)
def test_all_others_are_left_to_spark(pushed: Filter) -> None:
    filters, rest = push([pushed], RangeFilters())
    assert rest == [pushed]
    assert filters.apply(RANGES) == RANGES
    assert filters.since_ms is None


@pytest.mark.parametrize(
    ("pushed", "since_ms"),
    [
        (GreaterThanOrEqual(TIMESTAMP, MOMENT), MOMENT_MS),
        (GreaterThanOrEqual(TIMESTAMP, MOMENT + timedelta(microseconds=1)), MOMENT_MS + 1),
        (GreaterThan(TIMESTAMP, MOMENT), MOMENT_MS + 1),
        (GreaterThan(TIMESTAMP, MOMENT - timedelta(microseconds=1)), MOMENT_MS),
        (EqualTo(TIMESTAMP, MOMENT.astimezone(timezone(timedelta(hours=5)))), MOMENT_MS),
        (In(TIMESTAMP, (MOMENT + timedelta(days=1), MOMENT)), MOMENT_MS),
    ],
)
def test_timestamps_bound_the_offsets_from_below_and_spark_applies_them_too(
    pushed: Filter, since_ms: int
) -> None:
    filters, rest = push([pushed], RangeFilters())
    assert filters.since_ms == since_ms
    assert rest == [pushed]


def test_all_filters_have_to_be_passed() -> None:
    late = GreaterThan(TIMESTAMP, MOMENT)
    filters, rest = push([EqualTo(PARTITION, 0), GreaterThan(OFFSET, 7), late], RangeFilters())
    filters, more = push([LessThan(OFFSET, 22), GreaterThan(TIMESTAMP, MOMENT - timedelta(1))], filters)
    assert (rest, len(more), filters.since_ms) == ([late], 1, MOMENT_MS + 1)
    assert [(one.first, one.last) for one in filters.apply(RANGES)] == [(8, 9), (20, 21)]
