"""A streaming source in Python that only returns prepared rows: the shortest possible micro-batch.

Its rows have the same columns and size as Kafka's. All micro-batches are equal.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

_TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
}


class PreparedRows(DataSource):
    """Options: `rows` per micro-batch, `partitions`, `bytes` per value."""

    @classmethod
    def name(cls) -> str:
        return "prepared"

    def schema(self) -> str:
        return (
            "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
            "timestampType int"
        )

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return _Reader({name: int(value) for name, value in self.options.items()})


class _Reader(DataSourceStreamReader):
    def __init__(self, options: dict[str, int]) -> None:
        self._options = options
        self._batch = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"batch": 0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:  # noqa: N802
        self._batch += 1
        return {"batch": self._batch}

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(self._options["partitions"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield _prepared(
            self._options["rows"] // self._options["partitions"], self._options["bytes"], partition.value
        )


@functools.cache
def _prepared(rows: int, size: int, partition: int) -> pa.RecordBatch:
    values: dict[str, Any] = {
        "key": [None] * rows,
        "value": [bytes(size)] * rows,
        "topic": ["prepared"] * rows,
        "partition": [partition] * rows,
        "offset": list(range(rows)),
        "timestamp": [0] * rows,
        "timestampType": [0] * rows,
    }
    arrays = [pa.array(values[name], kind) for name, kind in _TYPES.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(_TYPES))
