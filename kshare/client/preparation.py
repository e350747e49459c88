"""Deserializes whole batches before they are handed out, for deserializers that are awaited.

Records are read from a batch without an event loop, in any thread, so nothing can be awaited then. Therefore the task
that asks for a batch deserializes all of its records first, several at a time:

    state of the batch   | who owns it                         | what its lease does
    ---------------------+-------------------------------------+--------------------------------------------------
    waiting              | Holdings                            | released before its lock expires
    being prepared       | the task that asked for it          | renewed, as if it had been handed out
    cancelled meanwhile  | Inbox, until any task asks again    | renewed, or released if no loop runs any more
    prepared             | whoever asks next                   | renewed

What was deserialized before a cancellation is kept. Nothing is settled here: a failure is stored, and takes effect when
its record's turn comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

import kshare.fast.coarse_clock as coarse_clock
from kshare.client.deserialize import Reader, ReadRecord, context_of, deserialized, undeserialized_parts
from kshare.client.deserializer_calls import DeserializerCall, RecordPart
from kshare.client.record import (
    BatchIterator,
    ShareBatch,
    ShareRecord,
    read_through,
    reader_of,
    undeserialized,
)
from kshare.errors import CorruptBatchError, RequestTimedOut

AT_ONCE = 16
"""How many records of a batch are deserialized concurrently."""
_MAX_SLICE_MS = 5
"""After this time, other tasks get a chance to run."""


class _Failure(NamedTuple):
    part: RecordPart
    error: Exception


class PreparedRecords:
    """The keys and values of one batch. A `RecordReader` for it."""

    kind: type[ShareRecord] = ReadRecord

    def __init__(self, reader: Reader) -> None:
        self.is_complete = False
        self.results: dict[int, tuple[Any, Any] | _Failure] = {}
        """By offset."""
        self._reader = reader

    def read(self, record: ShareRecord) -> bool:
        mutable = undeserialized_parts(record)
        result = self.results.get(record.offset, _UNFINISHED)
        if isinstance(result, _Failure):
            self._reader.report_failure(record, result.part, result.error)
            return False
        mutable.key, mutable.value = result
        return True


class Preparer:
    """Prepares batches, each in the task that asks for it. `put_back` takes those whose preparation was cancelled."""

    def __init__(self, reader: Reader, max_seconds: float, put_back: Callable[[ShareBatch], None]) -> None:
        """`max_seconds`: after this time, records that aren't deserialized are raised, whatever `on_poison` says."""
        self._reader = reader
        self._max_seconds = max_seconds
        self._put_back = put_back
        self._limits: dict[anyio.CancelScope, None] = {}
        """In order: a set's would depend on addresses in memory."""

    async def prepare(self, batch: ShareBatch) -> bool:
        """Returns False if no record is held any more."""
        prepared = reader_of(batch)
        if not isinstance(prepared, PreparedRecords):
            prepared = PreparedRecords(self._reader)
            read_through(batch, prepared)
        if not prepared.is_complete:
            try:
                await self._deserialize_all(batch, prepared)
            except BaseException:
                self._put_back(batch)
                raise
            prepared.is_complete = True
        return batch.is_held

    def stop(self) -> None:
        """End all preparations, since the consumer is being closed."""
        for limit in self._limits:
            limit.cancel()

    async def _deserialize_all(self, batch: ShareBatch, prepared: PreparedRecords) -> None:
        unread = _Unread(undeserialized(batch), prepared)
        with anyio.move_on_after(self._max_seconds) as limit:
            self._limits[limit] = None
            interrupts: list[BaseException] = []
            try:
                async with anyio.create_task_group() as tasks:
                    await self._work(unread, prepared, tasks, AT_ONCE - 1)
            except BaseExceptionGroup as group:  # an interrupt, since errors of deserializers are stored
                cancelled, others = group.split(anyio.get_cancelled_exc_class())
                interrupts.append((others or cancelled or group).exceptions[0])
                del cancelled, others
            finally:
                del self._limits[limit]
            if interrupts:
                raise interrupts.pop()  # nothing has it any more, not even the group: see `kshare.errors`

    async def _work(self, unread: _Unread, prepared: PreparedRecords, tasks: TaskGroup, helpers: int) -> None:
        """Deserialize one record after another. A helper does the same when this task has to wait."""
        if helpers:
            tasks.start_soon(self._work, unread, prepared, tasks, helpers - 1)
        until = coarse_clock.coarse_ms() + _MAX_SLICE_MS
        while (record := unread.next()) is not None:
            prepared.results[record.offset] = await self._deserialize(record)
            if coarse_clock.coarse_ms() > until:
                await checkpoint()
                until = coarse_clock.coarse_ms() + _MAX_SLICE_MS

    async def _deserialize(self, record: ShareRecord) -> tuple[Any, Any] | _Failure:
        part: RecordPart = "key"
        try:
            key = await _awaited(record, self._reader.key, record.key)
            part = "value"
            return key, await _awaited(record, self._reader.value, record.value)
        except Exception as error:
            return _Failure(part, error)


class _Unread:
    """The records of a batch that haven't been deserialized yet, shared by several tasks."""

    def __init__(self, records: BatchIterator, prepared: PreparedRecords) -> None:
        self._records = records
        self._prepared = prepared

    def next(self) -> ShareRecord | None:
        while True:
            try:
                record = self._records.next_held()
            except CorruptBatchError:  # it is raised again when the records are handed out
                continue
            if record is None or record.offset not in self._prepared.results:
                return record


_UNFINISHED = _Failure("value", RequestTimedOut("it wasn't deserialized within max_lease_seconds"))


async def _awaited(record: ShareRecord, call: DeserializerCall | None, data: bytes | None) -> Any:
    if call is None or data is None:
        return data
    if not call.is_async:
        return deserialized(record, call, data)
    if call.takes_context:
        return await call.function(data, context_of(record, call.part))
    return await call.function(data)
