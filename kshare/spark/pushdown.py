"""Filters that Spark pushes down, from PySpark 4.1 on: which records of a view or a lease needn't be read.

    filter on                     | what happens                                        | applied by
    ------------------------------+-----------------------------------------------------+------------------
    topic, partition              | other partitions aren't read                        | kshare, exactly
    offset                        | ranges are cut                                      | kshare, exactly
    timestamp ≥, >, =, IN         | offsets before the first record that is new enough  | kshare, and Spark
                                  | aren't read                                         |
    timestamp <, ≤, and all else  | nothing                                             | Spark

Timestamps needn't ascend with the offsets. A broker tells the first offset whose timestamp is at least T, so that
everything before it is older. What comes after it may be older too, and nothing is known about an upper bound. So Spark
has to apply these filters again.

Decides which filters are applied here. Sends nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from kshare.spark.range_filters import Cut, RangeFilters, Span
from kshare.spark.ranges import RecordRange

ValueT = TypeVar("ValueT", int, str)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_NEVER_NULL = ("topic", "partition", "offset", "timestamp", "timestampType")


def push(filters: Iterable[Filter], before: RangeFilters) -> tuple[RangeFilters, list[Filter]]:
    """Returns these filters together with earlier ones, and those that Spark has to apply, too."""
    cuts, since, rest = list(before.cuts), before.since_ms, []
    for one in filters:
        cut = _cut(one)
        if cut is not None:
            cuts.append(cut)
            continue
        rest.append(one)
        found = _since(one)
        if found is not None:
            since = found if since is None else max(since, found)
    return RangeFilters(tuple(cuts), since), rest


# --- filters that are applied exactly


def _cut(one: Filter) -> Cut | None:
    """Columns that are never null have only two outcomes, so that a negated filter is the complement."""
    if isinstance(one, Not):
        cut = _cut(one.child)
        return None if cut is None else lambda span: _complement(span, cut(span))
    if isinstance(one, IsNotNull):
        return _all if len(one.attribute) == 1 and one.attribute[0] in _NEVER_NULL else None
    match getattr(one, "attribute", ()):
        case ("offset",):
            return _offset_cut(one)
        case ("partition",):
            passes = _test(one, int)
            return None if passes is None else lambda span: _all(span) if passes(span.partition) else ()
        case ("topic",):
            tests = _test(one, str) or _text_test(one)
            return None if tests is None else lambda span: _all(span) if tests(span.topic) else ()
    return None


def _offset_cut(one: Filter) -> Cut | None:
    match one:
        case In(value=values) if _are(values, int):
            wanted = sorted(set(values))
            return lambda span: [(at, at) for at in wanted if span.first <= at <= span.last]
        case EqualTo(value=value) | EqualNullSafe(value=value) if _are((value,), int):
            return _between(value, value)
        case GreaterThan(value=value) if _are((value,), int):
            return _between(value + 1, None)
        case GreaterThanOrEqual(value=value) if _are((value,), int):
            return _between(value, None)
        case LessThan(value=value) if _are((value,), int):
            return _between(None, value - 1)
        case LessThanOrEqual(value=value) if _are((value,), int):
            return _between(None, value)
    return None


def _test(one: Filter, kind: type[ValueT]) -> Callable[[ValueT], bool] | None:
    match one:
        case In(value=values) if _are(values, kind):
            wanted = frozenset(values)
            return lambda found: found in wanted
        case EqualTo(value=value) | EqualNullSafe(value=value) if _are((value,), kind):
            return lambda found: bool(found == value)
        case GreaterThan(value=value) if _are((value,), kind):
            return lambda found: bool(found > value)
        case GreaterThanOrEqual(value=value) if _are((value,), kind):
            return lambda found: bool(found >= value)
        case LessThan(value=value) if _are((value,), kind):
            return lambda found: bool(found < value)
        case LessThanOrEqual(value=value) if _are((value,), kind):
            return lambda found: bool(found <= value)
    return None


def _text_test(one: Filter) -> Callable[[str], bool] | None:
    match one:
        case StringStartsWith(value=value) if _are((value,), str):
            return lambda found: found.startswith(value)
        case StringEndsWith(value=value) if _are((value,), str):
            return lambda found: found.endswith(value)
        case StringContains(value=value) if _are((value,), str):
            return lambda found: value in found
    return None


def _are(values: Iterable[object], kind: type) -> bool:
    """Whether all of these have the type; a null among them would make the filter's outcome unknown."""
    return all(isinstance(value, kind) and not isinstance(value, bool) for value in values)


def _all(span: RecordRange) -> Sequence[Span]:
    return ((span.first, span.last),)


def _between(low: int | None, high: int | None) -> Cut:
    def cut(span: RecordRange) -> Sequence[Span]:
        first = span.first if low is None else max(low, span.first)
        last = span.last if high is None else min(high, span.last)
        return ((first, last),) if first <= last else ()

    return cut


def _complement(span: RecordRange, spans: Iterable[Span]) -> Sequence[Span]:
    left, at = [], span.first
    for first, last in spans:
        if at < first:
            left.append((at, first - 1))
        at = last + 1
    if at <= span.last:
        left.append((at, span.last))
    return left


# --- timestamps


def _since(one: Filter) -> int | None:
    """The earliest timestamp, in milliseconds, that a record can have to pass this filter."""
    if getattr(one, "attribute", ()) != ("timestamp",):
        return None
    match one:
        case In(value=values) if values and all(map(_is_moment, values)):
            return min(_at_least(value) for value in values)
        case EqualTo(value=value) | EqualNullSafe(value=value) | GreaterThanOrEqual(value=value) if (
            _is_moment(value)
        ):
            return _at_least(value)
        case GreaterThan(value=value) if _is_moment(value):
            passed: int = (value - _EPOCH) // _MILLISECOND
            return passed + 1
    return None


def _is_moment(value: object) -> bool:
    """Whether it is a moment after 1969: brokers take negative timestamps for something else."""
    return isinstance(value, datetime) and value.tzinfo is not None and value >= _EPOCH


def _at_least(value: datetime) -> int:
    """Spark has microseconds, Kafka milliseconds: rounded up."""
    return -((_EPOCH - value) // _MILLISECOND)
