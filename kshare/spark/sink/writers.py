"""What Spark calls to write: one writer for batches, one for streams. `write` runs in executors, once for each attempt.

Both take column batches. PySpark 4.0 has no such class for streams, but recognizes the one for batches there, too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from kshare.errors import ConfigError, KshareError
from kshare.spark.plain_errors import with_plain_errors
from kshare.spark.sink.row_columns import check_columns
from kshare.spark.sink.write_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("kshare.spark")

_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Local properties that Spark sets for the tasks of a micro-batch. The id of a query is stored in its checkpoint."""


def batch_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceWriter:
    """Raises ConfigError if the options or the columns are invalid."""
    options = WriteOptions.parse(given, is_streaming=False)
    if overwrite:
        raise ConfigError('mode overwrite isn\'t possible with topics: write mode("append")')
    check_columns(schema, options.topic)
    return BatchWriter(options)


def stream_writer(given: Mapping[str, str], schema: StructType) -> DataSourceStreamWriter:
    """Raises ConfigError if the options or the columns are invalid. All output modes add records to the topic."""
    options = WriteOptions.parse(given, is_streaming=True)
    check_columns(schema, options.topic)
    return StreamWriter(options)


@dataclass
class RowsWritten(WriterCommitMessage):
    """What a task has done. Spark keeps it until all tasks are done."""

    count: int
    highest_before: int = -1
    """With exactlyOnceTopic: the highest number of a task that an earlier attempt at the micro-batch has completed."""


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame. What a failed task has written stays in the topic."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    @with_plain_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = _task()
        return RowsWritten(_written(self._options, iterator, f"task {task.partitionId()}"))


class StreamWriter(DataSourceStreamWriter, DataSourceArrowWriter):
    """Writes the micro-batches of a query. Spark calls `commit` and `abort` as for streams."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    @with_plain_errors
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        from kshare.spark.executor.spare_collections import spare_collections

        spare_collections()
        task = _task()
        query_id, batch_id = task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_BATCH_ID)
        name = f"task {task.partitionId()} of micro-batch {batch_id}"
        if self._options.exactly_once_topic is None:
            return RowsWritten(_written(self._options, iterator, name))
        if not query_id or not batch_id:
            raise KshareError(
                "exactlyOnceTopic: Spark doesn't say which query and micro-batch this is: use trigger "
                "processingTime, availableNow or once"
            )
        from kshare.spark.executor.connections import connections
        from kshare.spark.sink.batch_marker import MarkerKey
        from kshare.spark.sink.once_writer import OnceWriter

        key = MarkerKey(query_id, task.partitionId())
        shared = connections(self._options.net)
        shared.reach()
        writer = OnceWriter(shared, self._options, key, int(batch_id), name)
        return RowsWritten(writer.write(iterator), writer.highest_before)

    def commit(  # type: ignore[override]
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        """Each task has committed what it wrote. Tells if an earlier attempt had tasks that this one doesn't have."""
        written = [message for message in messages if isinstance(message, RowsWritten)]
        before = 1 + max((message.highest_before for message in written), default=-1)
        if before > len(messages):
            log.error(
                "micro-batch %d was repeated with %d tasks instead of %d or more, so some of its rows were written "
                "twice: keep the number of cores and partitions (minPartitions, shuffle partitions) as it was",
                batchId,
                len(messages),
                before,
            )

    def abort(  # type: ignore[override]
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        """Nothing to do: the micro-batch is repeated."""


def _written(options: WriteOptions, batches: Iterable[pa.RecordBatch], task: str) -> int:
    from kshare.spark.executor.connections import connections
    from kshare.spark.sink.kept_writers import kept_writer
    from kshare.spark.sink.row_writer import RowWriter

    shared = connections(options.net)
    shared.reach()
    with kept_writer(shared, options.writing) as writer:
        rows = RowWriter(shared, writer, options.writing, options.topic, task)
        rows.write(batches)
    return rows.count


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "only called in tasks"
    return task
