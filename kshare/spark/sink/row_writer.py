"""Writes the rows of a task, and says which rows of it weren't written.

While Spark computes the next column batch, the previous one is put into the producer's buffer, and sent from there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from time import time

import pyarrow as pa

from kshare.errors import KshareError
from kshare.producer.records import NewRecord, PendingSend
from kshare.producer.writer import RecordWriter
from kshare.spark.executor.connections import Connections
from kshare.spark.sink.row_columns import Row, rows_of

Handle = Callable[[Sequence[Row]], object]


class RowsNotWritten(KshareError):
    """Some rows of a task weren't written."""


@dataclass(slots=True)
class _Chunk:
    """The rows of a column batch that are in the buffer."""

    first: int
    """The number of its first row in the task."""
    sends: list[PendingSend] = field(default_factory=list)


class RowWriter:
    """Writes the rows of one task. `task` describes the task in errors."""

    def __init__(self, shared: Connections, writer: RecordWriter, topic: str | None, task: str) -> None:
        self._shared = shared
        self._writer = writer
        self._topic = topic
        self._task = task
        self._chunks: deque[_Chunk] = deque()
        self.count = 0
        """The number of rows so far."""

    def write(self, batches: Iterable[pa.RecordBatch], on_rows: Handle | None = None) -> None:
        """Write these rows, and wait until all are confirmed. Calls `on_rows` with the rows of each column batch."""
        waiting: Future[None] | None = None
        for rows in row_lists(batches, self._topic):
            if on_rows is not None:
                on_rows(rows)
            if waiting is not None:
                waiting.result()
            self._check_done()
            waiting = self._shared.submit(self._enqueue, rows, self.count)
            self.count += len(rows)
        if waiting is not None:
            waiting.result()
        self._shared.submit(self._confirm).result()
        self._check_done()

    async def _enqueue(self, rows: Sequence[Row], first: int) -> None:
        chunk = _Chunk(first)
        self._chunks.append(chunk)
        add, enqueue, now = chunk.sends.append, self._writer.enqueue, int(time() * 1000)
        for topic, partition, key, value, headers, timestamp in rows:
            if topic is None:
                raise self._refused(chunk, "the topic is null")
            record = NewRecord(value, key, headers, now if timestamp is None else timestamp)
            try:
                add(await enqueue(topic, record, partition))
            except KshareError as error:
                place = topic if partition is None else f"{topic}[{partition}]"
                raise self._refused(chunk, f"{place}: {error}") from None

    async def _confirm(self) -> None:
        with suppress(KshareError):  # `_check_done` says for which rows
            await self._writer.flush()

    def _refused(self, chunk: _Chunk, reason: str) -> RowsNotWritten:
        return RowsNotWritten(
            f"row {chunk.first + len(chunk.sends)} of {self._task} can't be written: {reason}"
        )

    def _check_done(self) -> None:
        """Forget the chunks that are confirmed. Raises RowsNotWritten if one isn't."""
        while self._chunks and all(send.is_done for send in self._chunks[0].sends):
            chunk = self._chunks.popleft()
            problems = [(chunk.first + index, send) for index, send in enumerate(chunk.sends) if send.problem]
            if problems:
                raise self._not_written(problems)

    def _not_written(self, problems: Sequence[tuple[int, PendingSend]]) -> RowsNotWritten:
        """The rows that have the same problem as the first, which is that of a partition."""
        first, reason = problems[0][0], problems[0][1].problem
        same = [number for number, send in problems if send.problem == reason]
        count = f"{len(same)} row" + ("s" if len(same) > 1 else "")
        return RowsNotWritten(
            f"rows {first} to {same[-1]} of {self._task}: {count} not confirmed: {reason}. Spark repeats the task; "
            "remove the cause if it fails again"
        )


def row_lists(batches: Iterable[pa.RecordBatch], topic: str | None) -> Iterator[list[Row]]:
    """The rows of each column batch."""
    for batch in batches:
        yield list(rows_of(batch, topic))
