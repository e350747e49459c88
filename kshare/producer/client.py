"""Producer: writes records, each confirmed by all in-sync replicas, in order and without duplicates.

    async with Producer("localhost:9092") as producer:
        produced = await producer.send("orders", b"shipped", key=b"order 7")

The work is done by `RecordWriter`; this adds the connections and the options.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Self, Unpack

import anyio

from kshare.admin.routing import Router
from kshare.client.background import Background
from kshare.errors import ConfigError, KshareError
from kshare.net.pool import Pool
from kshare.net.running_loop import task_function
from kshare.producer.config import producer_settings
from kshare.producer.records import Headers, NewRecord, PendingSend, Produced
from kshare.producer.writer import CLOSED, RecordWriter
from kshare.surroundings import surroundings

if TYPE_CHECKING:
    from kshare.producer.options import ProducerOptions

log = logging.getLogger("kshare.producer")

NOT_CLOSED = "a producer wasn't closed, and records that weren't confirmed may be lost"


class Producer:
    """Writes records: use it with `async with`. Kafka's own option names are understood too."""

    __module__ = "kshare"

    def __init__(
        self, bootstrap_servers: str | Iterable[str] | None = None, **options: Unpack[ProducerOptions]
    ) -> None:
        self._net, self._settings = producer_settings(bootstrap_servers, options)
        self._wall_time = surroundings.get().wall_time
        self._writer: RecordWriter | None = None
        """While it is open."""
        self._was_open = False
        self._background: Background | None = None
        self._closer: object = None
        self.find_caller: Callable[[], object] | None = None
        """For `kshare.sync`: returns who calls, if that isn't the current task. `flush` raises what its caller doesn't
        know."""

    async def __aenter__(self) -> Self:
        """Connect to a broker and get a producer id, or raise. Fences older producers with our transactional id."""
        if self._background is not None:
            raise KshareError("the producer is open already: create one for each `async with`")
        self._background = Background(self._run, self._on_end, "producer")
        try:
            await self._background.start()
        except BaseException:
            self._background = None
            raise
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close it. An error that ended the block is more important than that a record wasn't written."""
        try:
            await self.close()
        except KshareError as problem:
            if error is None:
                raise
            log.warning("a producer was closed, and not all records were written: %s", problem)

    async def close(self) -> None:
        """Write what is left, within `close_timeout`, even if cancelled.

        Raises the error of a record that wasn't written, unless its result was awaited. Called at the end of
        `async with`. Any task may call it, more than once: all calls return when the producer is closed, and one of
        them raises the error.
        """
        background = self._background
        if background is None:
            return
        background.require_own_loop()
        if not background.is_stopping:
            self._closer = (self.find_caller or task_function())()
        background.stop()
        try:
            await background.join()
        finally:
            if self._background is background:
                self._background = None

    async def _run(self, on_started: Callable[[], None], stopping: anyio.Event) -> None:
        async with Pool(self._net) as pool:
            await pool.bootstrap()
            router = Router(pool, self._net.request_timeout)
            async with RecordWriter(router, self._settings, caller=self.find_caller) as writer:
                self._writer, self._was_open = writer, True
                on_started()
                try:
                    await stopping.wait()
                except anyio.get_cancelled_exc_class():  # the event loop ends
                    warnings.warn(
                        f"{NOT_CLOSED}: use it with `async with`", ResourceWarning, stacklevel=2, source=self
                    )
                    raise
                self._writer, writer.closer = None, self._closer

    def _on_end(self) -> None:
        self._writer = None

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Produced:
        """Write a record, and wait until all in-sync replicas have it.

        The key chooses the partition, as with Java's producers. `timestamp` is in milliseconds, by default now.

        If this is cancelled when the record is in the buffer, the record is written all the same. Before that, while
        the topic's partitions are looked up or the buffer is full, it isn't. `enqueue` tells you which it is.
        """
        pending = await self.enqueue(topic, value, key, headers, partition, timestamp)
        if self._writer is not None:
            self._writer.send_alone(pending)
        return await pending

    async def enqueue(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> PendingSend:
        """Put a record into the buffer and return the handle of its result, which you may await.

        Returns at once, except while the buffer is full, or while the partitions of a topic are looked up that wasn't
        written to before. If it is cancelled, the record isn't written.

        If you don't await it, `flush` or the end of `async with` raises the error of a record that wasn't written.
        """
        if not isinstance(topic, str) or not topic:
            raise ConfigError(f"topic must be a non-empty string, not {topic!r}")
        writer = self._open()
        self._require_own_loop()
        at = int(self._wall_time() * 1000) if timestamp is None else timestamp
        return await writer.enqueue(topic, NewRecord(value, key, headers, at), partition)

    async def flush(self) -> None:
        """Wait until the outcome of all records that were enqueued before is known, whoever has enqueued them.

        Raises the error of a record that wasn't written, unless its result was awaited. A note says how many there are,
        and for which partitions. Each task is told of its own records, and once of others that nobody was told of.
        """
        writer = self._open()
        self._require_own_loop()
        await writer.flush()

    @property
    def _unconfirmed(self) -> int:
        """How many records wait for their outcome."""
        return 0 if self._writer is None else self._writer.unconfirmed

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """`async with producer.transaction():` commits what is written in it, or nothing.

        It is aborted if the block raises or is cancelled, or if a record wasn't written. A commit that was sent isn't
        cancelled: the block waits for its outcome. Raises CommitUnknown if that isn't known.
        """
        writer = self._open()
        self._require_own_loop()
        return writer.transaction()

    def _require_own_loop(self) -> None:
        if self._background is not None:
            self._background.require_own_loop()

    def _open(self) -> RecordWriter:
        if self._writer is None:
            raise self._not_open("async with")
        return self._writer

    def _not_open(self, statement: str) -> KshareError:
        """The error to raise. `statement` opens it."""
        return KshareError(
            CLOSED if self._was_open else f"the producer isn't open: use it with `{statement}`"
        )
