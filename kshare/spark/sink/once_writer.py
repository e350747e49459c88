"""Writes the rows of a task of a stream in a transaction with a batch marker, unless an earlier attempt has.

The transactional id is that of the query and the task. So of two attempts of a task, in whatever process, the one
that began last fences the other, and waits until what that one left open is aborted or committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from time import time
from weakref import WeakKeyDictionary

import pyarrow as pa

from kshare.producer.records import NewRecord
from kshare.producer.writer import RecordWriter
from kshare.spark.executor.connections import Connections
from kshare.spark.sink.batch_marker import (
    BatchMarker,
    MarkerKey,
    RowSum,
    check_same_rows,
    highest_task,
    marker_to_match,
)
from kshare.spark.sink.marker_log import PARTITION, MarkerLog
from kshare.spark.sink.row_columns import Row
from kshare.spark.sink.row_writer import RowWriter, row_lists
from kshare.spark.sink.write_options import WriteOptions

_ABORTED_S = 30.0
"""How long coordinators may take to abort a transaction that has timed out: they look for those every ten seconds."""


class OnceWriter:
    """Writes the rows of one task of a micro-batch."""

    def __init__(
        self, shared: Connections, options: WriteOptions, key: MarkerKey, batch_id: int, task: str
    ) -> None:
        assert options.exactly_once_topic is not None, "only used then"
        self._shared = shared
        self._options = options
        self._topic = options.exactly_once_topic
        self._key = key
        self._batch_id = batch_id
        self._task = task
        self._sum = RowSum()
        self.highest_before = -1
        """The highest number of a task that an earlier attempt at the micro-batch has completed."""

    def write(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Returns how many rows were written now: none if an earlier attempt has written them."""
        name = f"kshare-spark-{self._key.query_id}-{self._key.task}"
        settings = replace(self._options.writing, transactional_id=name)
        with self._shared.entered(RecordWriter(self._shared.router, settings)) as writer:
            # Not before: earlier attempts must have ended.
            markers = marker_log(self._shared, self._topic)
            known = self._shared.submit(markers.read, settings.transaction_timeout + _ABORTED_S).result()
            self.highest_before = highest_task(known, self._key.query_id, self._batch_id)
            before = marker_to_match(known, self._key, self._batch_id, self._topic)
            if before is not None:
                for rows in row_lists(batches, self._options.topic):
                    self._add(rows)
                check_same_rows(before, self._sum, self._key)
                return 0
            with self._shared.entered(writer.transaction()):
                RowWriter(self._shared, writer, settings, self._options.topic, self._task, self._topic).write(
                    batches, self._add
                )
                # When all rows are confirmed: other tasks wait while a marker is in an open transaction.
                self._shared.submit(self._mark, writer).result()
        return self._sum.total

    def _add(self, rows: Iterable[Row]) -> None:
        self._sum = self._sum.plus(rows)

    async def _mark(self, writer: RecordWriter) -> None:
        marker = BatchMarker(self._batch_id, self._sum).to_bytes()
        now = int(time() * 1000)
        await writer.append(self._topic, PARTITION, [NewRecord(marker, self._key.to_bytes(), (), now)])


_logs: WeakKeyDictionary[Connections, dict[str, MarkerLog]] = WeakKeyDictionary()


def marker_log(shared: Connections, topic: str) -> MarkerLog:
    """This process's view of the topic."""
    logs = _logs.setdefault(shared, {})
    if topic not in logs:
        logs[topic] = MarkerLog(shared.router, shared.reader(is_committed_only=True, rack=None), topic)
    return logs[topic]
