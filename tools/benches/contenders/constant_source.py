"""The floor of streams from Python: a source that does nothing but return rows, which are always the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

_TASKS = 2


class ConstantSource(DataSource):
    """`format("constant")`. Its option `rows` is the number of rows in a micro-batch."""

    @classmethod
    def name(cls) -> str:
        return "constant"

    def schema(self) -> str:
        return "id bigint"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return _ConstantReader(int(self.options["rows"]))


class _ConstantReader(DataSourceStreamReader):
    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._batch = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"batch": 0}

    def latestOffset(self, *_: Any) -> dict[str, int]:  # noqa: N802 - with and without arguments, by Spark's release
        self._batch += 1
        return {"batch": self._batch}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(number) for number in range(_TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array(range(self._rows // _TASKS))], names=["id"])
