"""The share consumer for programs without an event loop.

    with kshare.sync.ShareConsumer("localhost:9092", group="orders", topics=["orders"]) as consumer:
        for record in consumer:
            ship(record.value)

The same consumer as `kshare.ShareConsumer`, on an event loop that the calling thread runs itself while it waits (see
`shared_loop`): the same options, records and batches, and the same rules for what is accepted when. Records are read in
the thread that iterates. What is decided about them goes by way of a desk (see `desk`), since another thread may run
the loop meanwhile.

Records may be settled from any thread, and any thread may close the consumer. Only one at a time may iterate: another
that tries gets an error. `on_settled` and `observer` are called in whichever thread runs the loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, cast, overload

import anyio

from kshare.client.config import ConsumerConfig
from kshare.client.consumer import AsyncConsumer as _Consumer
from kshare.client.consumer import BootstrapServers, TopicPartition, source_of
from kshare.client.deserialize import KeyT, ReadRecord, RecordT_co, TypedBatch, ValueT
from kshare.client.record import ShareBatch, ShareRecord, settle_held, settle_through
from kshare.errors import ConfigError, ConsumerClosed, KshareError
from kshare.state.lease import RELEASE
from kshare.sync.desk import Desk, Passage
from kshare.sync.shared_loop import LoopClosed

if TYPE_CHECKING:
    from kshare.client.options import AnyOptions, BytesOptions, KeyAndValueOptions, KeyOptions, ValueOptions

log = logging.getLogger("kshare.client")

ReturnT = TypeVar("ReturnT")

_LOOK_S = 0.001
"""The least that a wait for records takes: enough to take what is there."""


class BlockingConsumer(Generic[RecordT_co]):
    """What `ShareConsumer` does."""

    def __init__(self, bootstrap_servers: BootstrapServers = None, **options: Unpack[AnyOptions]) -> None:
        self._consumer: _Consumer[Any] = _Consumer(bootstrap_servers, **options)
        self._source = source_of(self._consumer)
        self._desk: Desk | None = None
        """While the consumer is open."""
        self._closing = threading.RLock()
        """Held while one thread closes, so that others can wait for that; a signal handler of its own needn't."""
        self._is_closed = False
        self._is_cut = False
        self._iterating: tuple[threading.Thread, object] | None = None
        """The thread whose loop has begun and isn't left, and which loop it is."""
        self._handed: ShareBatch | None = None
        self._current: Passage | ShareBatch | None = None
        self._turn = asyncio.Lock()
        self._walk: Iterator[ShareRecord] = iter(())
        self._ahead = 0
        """How many records that walk may still have."""
        self._burst_size = 1
        """How many go by before the event loop has to run again."""

    def __enter__(self) -> Self:
        """Connect to a broker, or raise. Joining the group continues in the background."""
        if self._desk is not None:
            raise KshareError("the consumer is open already: make one for each `with`")
        desk = Desk(self._consumer)
        try:
            desk.loop.run(self._consumer.__aenter__)
        except BaseException:
            desk.loop.close()
            raise
        self._handed, self._current, self._walk = None, None, iter(())
        self._is_closed, self._iterating = False, None
        self._turn = asyncio.Lock()
        self._desk = desk
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception as problem:
            if error is None:
                raise
            # What ended the block is what the user has to know first.
            log.error("closing the consumer failed: %s", problem, exc_info=problem)

    def close(self) -> None:
        """Close the consumer: send acknowledgements, release all other records, leave the group.

        Takes `close_timeout` at most. Called at the end of `with`. Any thread may call it, more than once: all calls
        return when the consumer is closed. A thread that waits for records gets ConsumerClosed.
        """
        desk = self._desk
        if desk is None or desk.loop.is_foreign:
            return
        self._require_other_thread("close()", desk)

        async def close() -> None:
            desk.close()
            await self._consumer.close()

        with self._closing:
            if not self._is_closed:
                self._is_closed = True
                try:
                    desk.loop.run(close)
                finally:
                    desk.loop.close()
                    self._desk = None

    @property
    def config(self) -> ConsumerConfig:
        return self._consumer.config

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are subscribed to now."""
        return self._consumer.topics

    def __iter__(self) -> Iterator[RecordT_co]:
        """Iterate over the records. A new loop continues after the record at which the last one was left."""
        self._require_turn()
        self._give_back()
        records = self._accepting() if self.config.is_implicit else self._walking()
        return cast("Iterator[RecordT_co]", records)

    def _walking(self) -> Iterator[ShareRecord]:
        with self._turn_to_iterate():
            while True:
                yield from self._next_stretch()
                self._go_on()

    def _next_stretch(self) -> Iterator[ShareRecord]:
        """Of the batch that is walked over, as many records as may go by at once."""
        self._is_cut = self._burst_size < self._ahead
        if not self._is_cut:
            return self._walk
        self._ahead -= self._burst_size
        return islice(self._walk, self._burst_size)

    def _go_on(self) -> None:
        """After a stretch: let everything else run, and get the next batch if this one is at its end."""
        if self._is_cut:
            desk = self._opened()
            if not desk.loop.take_turn(self._look_around):
                desk.schedule()
        else:
            batch = self._next_batch()
            self._walk, self._ahead = iter(batch), len(batch)

    def _look_around(self) -> None:
        """In the event loop."""
        self._opened().clear()
        self._burst_size = self._source.burst_size()

    @contextmanager
    def _turn_to_iterate(self) -> Iterator[None]:
        """As long as a loop lasts: until it ends, or is left."""
        self._require_turn()
        loop = self._iterating = threading.current_thread(), object()
        try:
            yield
        finally:
            if self._iterating is loop:
                self._iterating = None

    def _require_turn(self) -> None:
        """What another thread works on would be given back, or accepted, by this one's going on."""
        other = self._iterating[0] if self._iterating else threading.current_thread()
        if other is not threading.current_thread() and other.is_alive():
            raise KshareError(
                f"thread {other.name!r} iterates over this consumer, and only one at a time may: give each thread a "
                "consumer of its own, or let one iterate and hand records to the others"
            )

    def _accepting(self) -> Iterator[ShareRecord]:
        with self._turn_to_iterate():
            progress: Passage | None = None
            while True:
                if progress is not self._opened().progress:  # another loop has begun within this one
                    progress = None
                is_away = False
                try:
                    for record in self._next_stretch():
                        if progress is None:
                            progress = self._current = self._opened().begin(record)
                        progress.at = record
                        is_away = True
                        yield record
                        is_away = False
                finally:
                    if progress is not None and not is_away:
                        progress.come_back()
                self._go_on()
                if not self._is_cut:
                    progress = None

    def batches(self) -> Iterator[TypedBatch[RecordT_co]]:
        """Iterate over batches: records of one partition that were acquired together."""
        self._require_turn()
        self._give_back()
        return cast("Iterator[TypedBatch[RecordT_co]]", self._batches())

    def _batches(self) -> Iterator[ShareBatch]:
        with self._turn_to_iterate():
            while True:
                batch = self._current = self._next_batch()
                yield batch
                if self.config.is_implicit:
                    self._opened().accept_batch(batch)

    def _give_back(self) -> None:
        """A new loop: the last one won't come back for what it had in hand."""
        left, self._current = self._current, None
        if left is None or not self.config.is_implicit:
            return
        desk = self._opened()
        desk.end()
        if isinstance(left, ShareBatch):
            settle_held(left, RELEASE)
        elif left.at is not None:
            desk.settle_if_held(left.lease, left.at.offset, RELEASE)

    def commit(self) -> dict[TopicPartition, KshareError | None]:
        """Wait until all acknowledgements made so far are confirmed or refused. Returns the results.

        See `kshare.ShareConsumer.commit`.
        """
        return self._run(self._consumer.commit)

    @property
    def member_id(self) -> str:
        """The member id of this consumer in its group. Available once the consumer is open."""
        return self._consumer.member_id

    @property
    def can_renew(self) -> bool:
        """Whether acquisition locks are renewed: needs Kafka 4.2 or later and `renew_leases`."""
        return self._consumer.can_renew

    def subscribe(self, topics: Iterable[str]) -> None:
        """Replace the topics that are subscribed to; see `kshare.ShareConsumer.subscribe`."""
        self._call(lambda: self._consumer.subscribe(topics))

    def stop_acquiring(self) -> None:
        """Stop fetching. Records that were handed to you remain yours to acknowledge, and are renewed as before."""
        self._call(self._consumer.stop_acquiring)

    def set_max_records(self, records: int) -> None:
        """Replace the limit `max_records`. Records that are already held are kept."""
        self._call(lambda: self._consumer.set_max_records(records))

    @overload
    def next_batch(self, timeout: None = None) -> TypedBatch[RecordT_co]: ...
    @overload
    def next_batch(self, timeout: float | None) -> TypedBatch[RecordT_co] | None: ...
    def next_batch(self, timeout: float | None = None) -> TypedBatch[RecordT_co] | None:
        """Wait for a batch and return it, as `batches` does, but never accept anything implicitly.

        Returns None if there is none within `timeout` seconds; 0 doesn't wait.
        """
        if timeout is not None and (not isinstance(timeout, int | float) or not timeout >= 0):
            raise ConfigError(f"timeout must be a number of seconds, 0 or more, not {timeout!r}")
        self._require_turn()
        if self._iterating is None:
            self._give_back()
        return cast("TypedBatch[RecordT_co] | None", self._next_batch_within(timeout))

    def _next_batch(self) -> ShareBatch:
        batch = self._next_batch_within(None)
        assert batch is not None, "it waits as long as it takes"
        return batch

    def _next_batch_within(self, timeout: float | None) -> ShareBatch | None:
        """One that an interrupted call had fetched already comes first."""
        self._require_turn()
        if self._handed is None:
            self._run(lambda: self._fetch(timeout))
        batch, self._handed = self._handed, None
        return batch

    async def _fetch(self, timeout: float | None) -> None:
        """In turn: an interrupt can come while a task is being started, and then nobody is there to cancel it."""
        with anyio.move_on_after(None if timeout is None else max(timeout, _LOOK_S)):
            async with self._turn:
                if self._handed is None:
                    assert self._desk is not None, "only an open consumer fetches"
                    batch = await self._source.next_batch()
                    settle_through(batch, self._desk)
                    self._burst_size = self._source.burst_size()
                    self._handed = batch

    def _require_other_thread(self, what: str, desk: Desk) -> None:
        if desk.loop.is_run_here:
            raise KshareError(
                f"{what} waits for the consumer's event loop, so observers, which that loop calls, can't call it"
            )

    def _call(self, function: Callable[[], None]) -> None:
        """In the event loop; see `_run`."""

        async def call() -> None:
            function()

        self._run(call)

    def _run(self, function: Callable[[], Coroutine[Any, Any, ReturnT]]) -> ReturnT:
        """In the event loop, after everything that was decided so far. An interrupt, such as Ctrl-C, ends it."""
        desk = self._opened()
        self._require_other_thread("this call", desk)

        async def run() -> ReturnT:
            desk.clear()
            return await function()

        try:
            return desk.loop.run(run)
        except LoopClosed as error:
            raise self._closed() from error

    def _opened(self) -> Desk:
        desk = self._desk
        if self._is_closed:
            raise self._closed()
        if desk is None:
            raise KshareError("the consumer isn't open: write `with ShareConsumer(...) as consumer:`")
        return desk

    def _closed(self) -> ConsumerClosed:
        return ConsumerClosed(
            f"the consumer of group {self.config.group!r} was closed; open another one to go on"
        )


class ShareConsumer(BlockingConsumer[RecordT_co]):
    """A consumer in a share group, for blocking code: use it with `with` and `for`.

    Options are those of `kshare.ShareConsumer`.
    """

    # Which deserializers make which records: see `kshare.ShareConsumer`.

    if TYPE_CHECKING:

        @overload
        def __new__(
            cls,
            bootstrap_servers: BootstrapServers = None,
            **options: Unpack[KeyAndValueOptions[KeyT, ValueT]],
        ) -> ShareConsumer[ReadRecord[KeyT | None, ValueT | None]]: ...
        @overload
        def __new__(
            cls, bootstrap_servers: BootstrapServers = None, **options: Unpack[ValueOptions[ValueT]]
        ) -> ShareConsumer[ReadRecord[bytes | None, ValueT | None]]: ...
        @overload
        def __new__(
            cls, bootstrap_servers: BootstrapServers = None, **options: Unpack[KeyOptions[KeyT]]
        ) -> ShareConsumer[ReadRecord[KeyT | None, bytes | None]]: ...
        @overload
        def __new__(
            cls, bootstrap_servers: BootstrapServers = None, **options: Unpack[BytesOptions]
        ) -> ShareConsumer[ShareRecord]: ...
        def __new__(cls, bootstrap_servers: BootstrapServers = None, **options: Any) -> Any: ...
