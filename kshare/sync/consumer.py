"""The share consumer for blocking code.

    with kshare.sync.ShareConsumer("localhost:9092", group="orders", topics=["orders"]) as consumer:
        for record in consumer:
            ship(record.value)

The same consumer as `kshare.ShareConsumer`, on an event loop that the calling thread runs itself while it waits (see
`shared_loop`): the same options, records and batches, and the same rules for what is accepted when. Records are read in
the thread that iterates. Acknowledgements go through a `DecisionQueue`, because another thread may be running the loop.

Any thread may acknowledge records or close the consumer. Only one thread at a time may iterate: another one gets an
error. `on_settled` and `observer` are called in the thread that runs the loop.
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
from kshare.sync.decision_queue import DecisionQueue, Passage
from kshare.sync.shared_loop import LoopClosed

if TYPE_CHECKING:
    from kshare.client.options import AnyOptions, BytesOptions, KeyAndValueOptions, KeyOptions, ValueOptions

log = logging.getLogger("kshare.client")

ReturnT = TypeVar("ReturnT")

_LOOK_S = 0.001
"""The minimum time to wait for records: enough to take those that are available."""


class BlockingConsumer(Generic[RecordT_co]):
    """The implementation of `ShareConsumer`."""

    def __init__(self, bootstrap_servers: BootstrapServers = None, **options: Unpack[AnyOptions]) -> None:
        self._consumer: _Consumer[Any] = _Consumer(bootstrap_servers, **options)
        self._source = source_of(self._consumer)
        self._decisions: DecisionQueue | None = None
        """While the consumer is open."""
        self._closing = threading.RLock()
        """Held by the thread that closes; others wait for it. Reentrant for signal handlers of that thread."""
        self._is_closed = False
        self._is_cut = False
        self._iterating: tuple[threading.Thread, object] | None = None
        """The thread that is inside a loop, and an object for that loop."""
        self._fetched: ShareBatch | None = None
        self._current: Passage | ShareBatch | None = None
        self._fetch_lock = asyncio.Lock()
        self._records: Iterator[ShareRecord] = iter(())
        self._remaining = 0
        """How many records the current batch may still have."""
        self._burst_size = 1
        """How many records may be handed out before the event loop has to run again."""

    def __enter__(self) -> Self:
        """Connect to a broker, or raise. Joining the group continues in the background."""
        if self._decisions is not None:
            raise KshareError("the consumer is open already: make one for each `with`")
        decisions = DecisionQueue(self._consumer)
        try:
            decisions.loop.run(self._consumer.__aenter__)
        except BaseException:
            decisions.loop.close()
            raise
        self._fetched, self._current, self._records = None, None, iter(())
        self._is_closed, self._iterating = False, None
        self._fetch_lock = asyncio.Lock()
        self._decisions = decisions
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception as problem:
            if error is None:
                raise
            # The error that ended the block is more important to the user.
            log.error("closing the consumer failed: %s", problem, exc_info=problem)

    def close(self) -> None:
        """Close the consumer: send acknowledgements, release all other records, leave the group.

        Takes `close_timeout` at most. Called at the end of `with`. Any thread may call it, more than once: all calls
        return when the consumer is closed. A thread that waits for records gets ConsumerClosed.
        """
        decisions = self._decisions
        if decisions is None or decisions.loop.is_foreign:
            return
        self._require_other_thread("close()", decisions)

        async def close() -> None:
            decisions.close()
            await self._consumer.close()

        with self._closing:
            if not self._is_closed:
                self._is_closed = True
                try:
                    decisions.loop.run(close)
                finally:
                    decisions.loop.close()
                    self._decisions = None

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
        records = self._accepting() if self.config.is_implicit else self._iterate()
        return cast("Iterator[RecordT_co]", records)

    def _iterate(self) -> Iterator[ShareRecord]:
        with self._turn_to_iterate():
            while True:
                yield from self._next_records()
                self._advance()

    def _next_records(self) -> Iterator[ShareRecord]:
        """The next records of the current batch, as many as may be handed out without running the event loop."""
        self._is_cut = self._burst_size < self._remaining
        if not self._is_cut:
            return self._records
        self._remaining -= self._burst_size
        return islice(self._records, self._burst_size)

    def _advance(self) -> None:
        """Let the event loop run, and get the next batch if this one has no more records."""
        if self._is_cut:
            decisions = self._opened()
            if not decisions.loop.take_turn(self._on_loop_turn):
                decisions.schedule()
        else:
            batch = self._next_batch()
            self._records, self._remaining = iter(batch), len(batch)

    def _on_loop_turn(self) -> None:
        """In the event loop."""
        self._opened().clear()
        self._burst_size = self._source.burst_size()

    @contextmanager
    def _turn_to_iterate(self) -> Iterator[None]:
        """For the duration of a loop, until it ends or is left."""
        self._require_turn()
        loop = self._iterating = threading.current_thread(), object()
        try:
            yield
        finally:
            if self._iterating is loop:
                self._iterating = None

    def _require_turn(self) -> None:
        """Raise if another thread iterates: its records would be released or accepted by this one."""
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
                if progress is not self._opened().progress:  # another loop was started inside this one
                    progress = None
                is_away = False
                try:
                    for record in self._next_records():
                        is_away = (
                            True  # first: an interrupt from here on must not accept what the user hasn't seen
                        )
                        if progress is None:
                            progress = self._current = self._opened().begin(record)
                        progress.at = record
                        yield record
                        is_away = False
                finally:
                    if progress is not None and not is_away:
                        progress.come_back()
                self._advance()
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
        """Release what the previous loop had in hand: it won't continue."""
        current, self._current = self._current, None
        if current is None or not self.config.is_implicit:
            return
        decisions = self._opened()
        decisions.end()
        if isinstance(current, ShareBatch):
            settle_held(current, RELEASE)
        elif current.at is not None:
            decisions.settle_if_held(current.lease, current.at.offset, RELEASE)

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
        """Return the batch that an interrupted call had fetched already, or wait for one."""
        self._require_turn()
        if self._fetched is None:
            self._run(lambda: self._fetch(timeout))
        batch, self._fetched = self._fetched, None
        return batch

    async def _fetch(self, timeout: float | None) -> None:
        """One call at a time: an interrupt while a task is started leaves a task that nobody cancels."""
        with anyio.move_on_after(None if timeout is None else max(timeout, _LOOK_S)):
            async with self._fetch_lock:
                if self._fetched is None:
                    assert self._decisions is not None, "only an open consumer fetches"
                    batch = await self._source.next_batch()
                    settle_through(batch, self._decisions)
                    self._burst_size = self._source.burst_size()
                    self._fetched = batch

    def _require_other_thread(self, caller: str, decisions: DecisionQueue) -> None:
        if decisions.loop.is_run_here:
            raise KshareError(
                f"{caller} waits for the consumer's event loop, so observers, which that loop calls, can't call it"
            )

    def _call(self, function: Callable[[], None]) -> None:
        """Run in the event loop; see `_run`."""

        async def call() -> None:
            function()

        self._run(call)

    def _run(self, function: Callable[[], Coroutine[Any, Any, ReturnT]]) -> ReturnT:
        """Run in the event loop, after applying all decisions made so far. An interrupt, such as Ctrl-C, cancels it."""
        decisions = self._opened()
        self._require_other_thread("this call", decisions)

        async def run() -> ReturnT:
            decisions.clear()
            return await function()

        try:
            return decisions.loop.run(run)
        except LoopClosed as error:
            raise self._closed() from error

    def _opened(self) -> DecisionQueue:
        decisions = self._decisions
        if self._is_closed:
            raise self._closed()
        if decisions is None:
            raise KshareError("the consumer isn't open: write `with ShareConsumer(...) as consumer:`")
        return decisions

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
