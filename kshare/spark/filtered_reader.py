"""Readers that take the filters that Spark pushes down, from PySpark 4.1 on.

Spark pushes filters to Python sources only if `spark.sql.python.filterPushdown.enabled` is set. If it isn't, Spark
refuses every reader that has `pushFilters`, even for a query without filters. A reader isn't told the setting, but
Spark pushes filters in a process of its own: its main module tells it apart, and only there a reader takes filters.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kshare.admin.log_offsets import EARLIEST, log_offsets
from kshare.admin.routing import Router
from kshare.spark.range_filters import RangeFilters, since
from kshare.spark.ranges import RecordRange

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_MODULE = "pyspark.sql.worker.data_source_pushdown_filters"


class Narrowable(Protocol):
    """A reader of ranges."""

    filters: RangeFilters

    def partitions(self) -> Sequence[InputPartition]: ...

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]: ...


class FilteredReader(DataSourceReader):
    """A reader that reads no more than the filters require."""

    def __init__(self, reader: Narrowable) -> None:
        self._reader = reader

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Returns the filters that Spark has to apply, too."""
        from kshare.spark.pushdown import push

        self._reader.filters, rest = push(filters, self._reader.filters)
        return rest

    def partitions(self) -> Sequence[InputPartition]:
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reader.read(partition)


def takes_filters() -> bool:
    """Whether this is the process in which Spark pushes filters down: forked from its daemon, or started for it."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _MODULE in sys.modules or getattr(main, "name", None) == _MODULE


async def narrowed(router: Router, ranges: Iterable[RecordRange], filters: RangeFilters) -> list[RecordRange]:
    """What the filters leave of these ranges. For a filter on timestamps, partition leaders are asked."""
    left = filters.apply(ranges)
    if filters.since_ms is None or not left:
        return left
    places = {(one.topic, one.partition) for one in left}
    starts = await log_offsets(router, places, filters.since_ms)
    # Requested second: what the first request has passed over was in the log then.
    log_starts = await log_offsets(router, places, EARLIEST)
    return list(since(left, starts, log_starts))
