"""Writes the rows of a task, and says which rows of it weren't written.

Rows for the same partition are collected until they fill a batch, and written as a block, which takes much less work
than one by one. While Spark computes the next column batch, the previous one is encoded and sent.
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
from kshare.producer.partitioner import partition_for
from kshare.producer.records import Contents, NewRecord, PendingBlock
from kshare.producer.settings import WriterSettings
from kshare.producer.writer import RecordWriter
from kshare.spark.executor.connections import Connections
from kshare.spark.sink.row_columns import Row, rows_of

_Place = tuple[str, int | None]
"""A topic and a partition, or None for any partition."""


class RowsNotWritten(KshareError):
    """Some rows of a task weren't written."""


@dataclass(slots=True)
class _Block:
    """Rows for one partition."""

    first: int
    """The number of the first of them in the task."""
    last: int = -1
    records: list[Contents] = field(default_factory=list)
    size: int = 0


class RowWriter:
    """Writes the rows of one task. `task` describes the task in errors."""

    def __init__(
        self,
        shared: Connections,
        writer: RecordWriter,
        settings: WriterSettings,
        topic: str | None,
        task: str,
        marker_topic: str | None = None,
    ) -> None:
        """`marker_topic`: no row may be written to it."""
        self._shared = shared
        self._writer = writer
        self._topic = topic
        self._task = task
        self._marker_topic = marker_topic
        self._block_bytes = settings.batch_bytes
        self._collected_bytes = settings.buffer_bytes // 2
        self._blocks: dict[_Place, _Block] = {}
        """Those that aren't full."""
        self._size = 0
        """Of all these."""
        self._sent: deque[tuple[_Block, PendingBlock]] = deque()
        self._counts: dict[str, int] = {}
        """The number of partitions of each topic with keys."""
        self.count = 0
        """The number of rows so far."""

    def write(
        self, batches: Iterable[pa.RecordBatch], on_rows: Callable[[Sequence[Row]], object] | None = None
    ) -> None:
        """Write these rows, and wait until all are confirmed. Calls `on_rows` with the rows of each column batch."""
        waiting: Future[None] | None = None
        for rows in row_lists(batches, self._topic):
            if on_rows is not None:
                on_rows(rows)
            if waiting is not None:
                waiting.result()
            self._check_sent()
            waiting = self._shared.submit(self._collect, rows, self.count)
            self.count += len(rows)
        if waiting is not None:
            waiting.result()
        self._shared.submit(self._finish).result()
        self._check_sent()

    async def _collect(self, rows: Sequence[Row], first: int) -> None:
        now = int(time() * 1000)
        blocks, full = self._blocks, self._block_bytes
        for number, (topic, partition, key, value, headers, timestamp) in enumerate(rows, first):
            if topic is None:
                raise self._refused(number, "the topic is null")
            if topic == self._marker_topic:
                raise self._refused(number, f"the topic {topic} is for batch markers (exactlyOnceTopic)")
            if partition is None and key is not None:
                partition = partition_for(key, self._counts.get(topic) or await self._count(topic, number))
            size = len(value or b"") + len(key or b"") + 32  # as NewRecord.size
            if headers or timestamp is not None:
                size = self._checked(
                    number, NewRecord(value, key, headers, now if timestamp is None else timestamp)
                )
            block = blocks.get((topic, partition))
            if block is None:
                block = blocks[topic, partition] = _Block(number)
            elif block.size + size > full:
                await self._send((topic, partition))
                block = blocks[topic, partition] = _Block(number)
            block.records.append((value, key, headers, now if timestamp is None else timestamp))
            block.last = number
            block.size += size
            self._size += size
            if self._size > self._collected_bytes:
                await self._send_all()

    def _checked(self, number: int, record: NewRecord) -> int:
        """The size of a record with contents that Spark may have, and Kafka can't."""
        try:
            return record.checked().size
        except KshareError as error:
            raise self._refused(number, str(error)) from None

    async def _count(self, topic: str, number: int) -> int:
        try:
            self._counts[topic] = await self._writer.partition_count(topic)
        except KshareError as error:
            raise self._refused(number, f"{topic}: {error}") from None
        return self._counts[topic]

    async def _send_all(self) -> None:
        for place in list(self._blocks):
            await self._send(place)

    async def _send(self, place: _Place) -> None:
        block = self._blocks.pop(place)
        self._size -= block.size
        topic, partition = place
        try:
            sent = await self._writer.enqueue_block(topic, block.records, block.size, partition)
        except KshareError as error:
            where = topic if partition is None else f"{topic}[{partition}]"
            raise self._not_written(block, f"{where}: {error}") from None
        block.records = []
        self._sent.append((block, sent))

    async def _finish(self) -> None:
        await self._send_all()
        with suppress(KshareError):  # `_check_sent` says for which rows
            await self._writer.flush()

    def _check_sent(self) -> None:
        """Forget the blocks that are confirmed. Raises RowsNotWritten if one isn't."""
        while self._sent and self._sent[0][1].is_done:
            block, sent = self._sent.popleft()
            if sent.problem:
                raise self._not_written(block, sent.problem)

    def _refused(self, number: int, reason: str) -> RowsNotWritten:
        return RowsNotWritten(f"row {number} of {self._task} can't be written: {reason}")

    def _not_written(self, block: _Block, reason: str) -> RowsNotWritten:
        return RowsNotWritten(
            f"rows {block.first} to {block.last} of {self._task} that go to this partition aren't "
            f"confirmed: {reason}. Spark repeats the task; remove the cause if it fails again"
        )


def row_lists(batches: Iterable[pa.RecordBatch], topic: str | None) -> Iterator[list[Row]]:
    """The rows of each column batch."""
    for batch in batches:
        yield list(rows_of(batch, topic))
