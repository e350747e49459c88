"""Writes records: takes them from callers, gives them to `BatchSender`, and runs transactions.

Keeps the buffer bounded: callers wait while it is full. If a caller is cancelled before its record is in the buffer,
the record isn't written; otherwise it is written from there. Other records aren't affected.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from operator import index
from random import Random
from typing import Self

import anyio
from anyio.abc import TaskGroup

from kshare.admin.log_offsets import no_partition
from kshare.admin.routing import Router
from kshare.errors import ConfigError, DeliveryFailed, KshareError, own_copy
from kshare.net.running_loop import task_function
from kshare.producer.partitioner import partition_for
from kshare.producer.records import Contents, NewRecord, PendingBlock, PendingSend
from kshare.producer.sender import BatchSender
from kshare.producer.settings import WriterSettings
from kshare.producer.topics import WrittenTopic
from kshare.producer.transaction_runner import TransactionRunner
from kshare.producer.transaction_state import Transaction
from kshare.surroundings import new_random
from kshare.wording import counted

log = logging.getLogger("kshare.producer")

CLOSED = "the producer was closed: open another one to continue"


class RecordWriter:
    """Use it with `async with`. At the end, it writes what is left, within `close_timeout`."""

    def __init__(
        self,
        router: Router,
        settings: WriterSettings,
        random: Random | None = None,
        caller: Callable[[], object] | None = None,
    ) -> None:
        """`caller` returns who calls, by default the current task. `flush` raises what its caller doesn't know."""
        self.closer: object = None
        """Who closes it, if that isn't the task that leaves the context."""
        self._find_caller = caller
        self._caller: Callable[[], object] = _nobody
        self._settings = settings
        self._random = random or new_random()
        self._sender = BatchSender(router, settings)
        self._backlog = self._sender.backlog
        self._tasks: TaskGroup | None = None
        self._abandoned = 0
        """How many records weren't confirmed when our tasks were cancelled."""
        self._room = anyio.Lock()
        self._transactions = TransactionRunner(self._sender, settings, self._drain)

    async def __aenter__(self) -> Self:
        await self._sender.identify()
        self._caller = self._find_caller or task_function()
        self._tasks = await anyio.create_task_group().__aenter__()
        self._tasks.start_soon(self._send, self._tasks, name="kshare producer")
        return self

    async def _send(self, tasks: TaskGroup) -> None:
        try:
            await self._sender.run(tasks)
        finally:
            # If all of us is cancelled: who waits in a shielded scope needn't wait for what nobody sends any more.
            self._abandoned += self._backlog.unconfirmed
            self._sender.stop(KshareError("the producer was closed"))

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        tasks, self._tasks = self._tasks, None
        assert tasks is not None, "entered before"
        is_aborted = False
        try:
            if error is None or isinstance(error, Exception):
                with anyio.move_on_after(self._settings.close_timeout):
                    is_aborted = await self._transactions.settle(tasks)
                    await self._drain()
        except BaseException as cancelled:
            await self._leave(tasks, cancelled, is_aborted=is_aborted)
            raise
        await self._leave(tasks, error, is_aborted=is_aborted)

    async def _leave(self, tasks: TaskGroup, error: BaseException | None, *, is_aborted: bool) -> None:
        """Whatever isn't confirmed by now has failed. Ends our tasks, which are cancelled as well if we are."""
        is_cancelled = not (error is None or isinstance(error, Exception))
        self._transactions.leave()
        if is_cancelled and (count := self._abandoned + self._backlog.unconfirmed):
            log.warning(
                "a producer was cancelled instead of closed; not confirmed, and maybe not written: %s",
                counted(count, "record"),
            )
        tasks.cancel_scope.cancel()
        self._sender.stop(KshareError("the producer was closed"))
        await tasks.__aexit__(None, None, None)  # without the error: see `Pool`
        failures, closer = self._backlog.failures, self.closer or self._caller()
        if is_aborted:
            failures.forget(closer)  # closing in a transaction means that nothing of it is written
        unseen = failures.tell(closer, failures.known_to(closer))
        try:
            if unseen is not None:
                if error is None:
                    raise unseen
                log.warning("a producer was closed, and not all records were written: %s", unseen)
        finally:
            del unseen  # see `kshare.errors`

    @property
    def unconfirmed(self) -> int:
        """How many records wait for their outcome."""
        return self._backlog.unconfirmed

    async def partition_count(self, topic: str) -> int:
        return len((await self._sender.topics.find(topic)).leaders)

    async def choose(self, topic: str, key: bytes | None) -> int:
        """The partition of the key, as Java's producers choose it; without a key, each partition in turn."""
        found = await self._sender.topics.find(topic)
        return found.partition_in_turn() if key is None else partition_for(key, len(found.leaders))

    async def enqueue(self, topic: str, record: NewRecord, partition: int | None = None) -> PendingSend:
        """Put a record into the buffer, and wait while that is full. Without a partition, the key chooses it.

        If it is cancelled, the record isn't in the buffer: nothing is awaited afterwards.
        """
        record = record.checked()
        size = record.size
        if size > self._settings.buffer_bytes:
            raise ConfigError(
                f"a record of about {size:,} bytes for {topic} doesn't fit into the buffer: "
                f"raise buffer_bytes ({self._settings.buffer_bytes:,})"
            )
        transaction = self._require_open()
        topics = self._sender.topics
        found = topics.known(topic) or await topics.find(topic)
        if type(partition) is int and partition not in found.leaders:
            found = await topics.refresh(topic)  # it may have been added
        number = self._choose(found, topic, record.key, size, partition)
        if self._backlog.size + size > self._settings.buffer_bytes or self._room.locked():
            await self._wait_for_room(topic, number, size, transaction)
        self._require_same(transaction)
        send, is_news = self._backlog.add(topic, number, record, anyio.current_time(), self._caller(), size)
        if is_news:
            self._sender.wake()
        return send

    def send_alone(self, send: PendingSend) -> None:
        """If no other record waits, this one doesn't linger for others: its caller waits for it, and sends no more."""
        if self._backlog.is_alone(send):
            self._push()

    async def enqueue_block(
        self, topic: str, records: Sequence[Contents], size: int, partition: int | None = None
    ) -> PendingBlock:
        """Put records that were checked into the buffer, as one batch of about this size, and wait while that is full.

        Without a partition, they go to another one each time, whatever their keys are.
        """
        if size > self._settings.buffer_bytes:
            raise ConfigError(f"records of {size:,} bytes for {topic} don't fit into the buffer")
        transaction = self._require_open()
        topics = self._sender.topics
        found = topics.known(topic) or await topics.find(topic)
        if type(partition) is int and partition not in found.leaders:
            found = await topics.refresh(topic)
        if partition is None:
            number = found.partition_without_key(self._random, lambda _: False)
        else:
            number = self._choose(found, topic, None, size, partition)
        if self._backlog.size + size > self._settings.buffer_bytes or self._room.locked():
            await self._wait_for_room(topic, number, size, transaction)
        self._require_same(transaction)
        block = self._backlog.add_block(topic, number, records, size, anyio.current_time(), self._caller())
        self._sender.wake()
        return block

    async def append(self, topic: str, partition: int, records: Iterable[NewRecord]) -> int:
        """Write these records in order. Returns the offset of the first, or -1 if there are none."""
        sends = [await self.enqueue(topic, record, partition) for record in records]
        self._push()
        for send in sends:
            await send.wait()
            send.is_seen = True  # the first error is raised for all
        offsets = [send.result().offset for send in sends]
        return offsets[0] if offsets else -1

    async def append_outcomes(
        self, topic: str, partition: int, records: Sequence[NewRecord]
    ) -> list[int | KshareError]:
        """Write these records in order. Returns the offset of each, or the error if it wasn't written."""
        try:
            await self._sender.topics.find(topic)  # once: it may take long to fail
        except KshareError as error:
            return [error for _ in records]
        sends = [await self._try_to_enqueue(topic, record, partition) for record in records]
        self._push()
        return [send if isinstance(send, KshareError) else await _offset(send) for send in sends]

    async def flush(self) -> None:
        """Wait until the outcome of all records that were enqueued before is known.

        Raises the error of a record that wasn't written, unless its result was asked for, or the caller was told
        before. Callers that wait at the same time are all told.
        """
        caller, failures = self._caller(), self._backlog.failures
        known = failures.known_to(caller)
        await self._drain()
        error = failures.tell(caller, known)
        try:
            if error is not None:
                raise error
        finally:
            del error  # see `kshare.errors`

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commit what is written in this context, or abort it if the context ends with an error or is cancelled.

        A cancellation while it ends is raised when it has ended. Raises CommitUnknown if the outcome isn't known.
        """
        if not self._settings.is_transactional:
            raise ConfigError("transactions need a name: open the producer with transactional_id=...")
        tasks, caller = self._require_running(), self._caller()
        await self._transactions.begin(tasks)
        try:
            try:
                yield
            except BaseException:
                await self._transactions.abort(tasks)
                raise
            await self._transactions.commit(tasks)
        except BaseException:
            # The error tells this task that nothing was written. `flush` tells others, whose records were given up.
            self._backlog.failures.forget(caller)
            raise

    # --- the buffer

    async def _try_to_enqueue(
        self, topic: str, record: NewRecord, partition: int
    ) -> PendingSend | KshareError:
        try:
            return await self.enqueue(topic, record, partition)
        except KshareError as error:
            return error

    def _push(self) -> None:
        """Send everything without lingering."""
        self._backlog.flush(self._backlog.last_number)
        self._sender.wake()

    async def _drain(self) -> None:
        number = self._backlog.last_number
        self._push()
        while (oldest := self._backlog.oldest_number) is not None and oldest <= number:
            await self._sender.wait_for_progress()

    def _choose(
        self, found: WrittenTopic, topic: str, key: bytes | None, size: int, partition: int | None
    ) -> int:
        if partition is not None:
            if type(partition) is not int:
                partition = _whole(partition)
            if partition not in found.leaders:
                raise ConfigError(no_partition(topic, partition, len(found.leaders)))
            return partition
        if key is not None:
            return partition_for(key, len(found.leaders))
        return found.partition_without_key(
            self._random, lambda number: self._backlog.has_room(topic, number, size)
        )

    async def _wait_for_room(
        self, topic: str, partition: int, size: int, transaction: Transaction | None
    ) -> None:
        limit = self._settings.delivery_timeout
        with anyio.move_on_after(limit) as scope:
            async with self._room:  # first come, first served
                self._push()
                while self._backlog.size + size > self._settings.buffer_bytes:
                    await self._sender.wait_for_progress()
                    self._require_same(transaction)
        if scope.cancelled_caught:
            reason = f"the buffer has been full for {limit:g} s"
            raise DeliveryFailed(topic, partition, reason, is_open=False)

    def _require_running(self) -> TaskGroup:
        if self._sender.fatal is not None:
            raise own_copy(self._sender.fatal)
        if self._tasks is None:
            raise KshareError(CLOSED)
        return self._tasks

    def _require_open(self) -> Transaction | None:
        """Returns the transaction that records are written in. After a failure, nothing of it can be committed."""
        if self._tasks is None or self._sender.fatal is not None:  # for every record: a call less
            self._require_running()
        if not self._settings.is_transactional:
            return None
        transaction = self._transactions.current
        if transaction is None:
            raise KshareError(self._transactions.problem)
        if self._backlog.failed is not None:
            self._backlog.failed.result()
        return transaction

    def _require_same(self, transaction: Transaction | None) -> None:
        """After waiting: a record never gets into another transaction than its caller's."""
        if self._require_open() is not transaction:
            raise KshareError("the record wasn't written, because its transaction has ended")


def _nobody() -> None:
    return None


def _whole(partition: object) -> int:
    """Numbers of other types, such as those of NumPy, are taken as they are; 1.0 would spoil the whole request."""
    if not isinstance(partition, bool):
        with suppress(TypeError):
            return index(partition)  # type: ignore[arg-type]
    raise ConfigError(f"partition must be a whole number, not {partition!r:.80}")


async def _offset(send: PendingSend) -> int | KshareError:
    try:
        return (await send).offset
    except KshareError as error:
        return error
