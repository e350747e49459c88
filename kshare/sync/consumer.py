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
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, cast, overload

import anyio

from kshare.client.config import ConsumerConfig
from kshare.client.consumer import AsyncConsumer as _Consumer
from kshare.client.consumer import BootstrapServers, TopicPartition, source_of
from kshare.client.deserialize import KeyT, ReadRecord, RecordT_co, ShareBatch, ValueT
from kshare.client.deserializer_calls import AwaitedDeserializer, DeserializerContext, PlainDeserializer
from kshare.client.given_options import require_named_topics
from kshare.client.record import ShareBatch as AnyBatch
from kshare.client.record import ShareRecord, settle_through
from kshare.errors import ConfigError, ConsumerClosed, KshareError
from kshare.sync.decision_queue import DecisionQueue
from kshare.sync.loops import BatchLoop, BlockingSource, OpenedBatch, RecordLoop
from kshare.sync.shared_loop import LoopClosed
from kshare.sync.signals import SignalsPutOff, finish

if TYPE_CHECKING:
    from kshare.client.options import AnyOptions, BytesOptions, KeyAndValueOptions, KeyOptions, ValueOptions

log = logging.getLogger("kshare.client")

ReturnT = TypeVar("ReturnT")

_LOOK_S = 0.001
"""The minimum time to wait for records: enough to take those that are available."""


class _BatchCall:
    """One call that waits for a batch. Several threads may make them."""

    def __init__(self, deliver: Callable[[AnyBatch], None] | None = None) -> None:
        """`deliver` gets the batch, if it is given."""
        self.deliver = deliver
        self.batch: AnyBatch | None = None
        self.is_over = False
        """It was interrupted: others get the batch."""


class BlockingConsumer(Generic[RecordT_co]):
    """The implementation of `ShareConsumer`."""

    if not TYPE_CHECKING:

        def __new__(cls, *positional, **options):
            """Before `__init__`, whose own error would name a class that nobody knows."""
            require_named_topics(positional, options)
            return super().__new__(cls)

    def __init__(self, bootstrap_servers: BootstrapServers = None, **options: Unpack[AnyOptions]) -> None:
        self._consumer: _Consumer[Any] = _Consumer(bootstrap_servers, **options)
        self._source = source_of(self._consumer)
        self._decisions: DecisionQueue | None = None
        """While the consumer is open."""
        self._closing = threading.RLock()
        """Held by the thread that closes; others wait for it. Reentrant for signal handlers of that thread."""
        self._is_closed = False
        self._loops = OpenedBatch(
            BlockingSource(
                self._next_batch,
                self._open_batch,
                self._open_urgent,
                self._take_turn,
                lambda: self._slice_size,
                self._source.most_delivered,
                lambda: self._call(lambda: None),
                self._source.inbox,
            )
        )
        self._turn = asyncio.Lock()
        self._slice_size = 1
        """How many records may be handed out before the event loop has to run again."""

    def __enter__(self) -> Self:
        """Connect to a broker, or raise. Joining the group continues in the background."""
        if self._decisions is not None:
            raise KshareError("the consumer is open already: create one for each `with`")
        try:
            self._open()
        except LoopClosed as error:  # another thread has closed it meanwhile
            raise self._closed() from error
        except BaseException:
            finish(self.close)
            raise
        return self

    def _open(self) -> None:
        with SignalsPutOff(lambda: None):  # an interrupt here would leave a thread that nobody knows of
            self._is_closed = False
            decisions = self._decisions = DecisionQueue(self._consumer)
            self._loops.open(decisions)
        self._turn = asyncio.Lock()
        decisions.loop.run(self._consumer.__aenter__)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            finish(self.close)
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
        # As with the async consumer, an interrupt doesn't end this: it takes effect when the group has been left. Until
        # then, a signal handler may close the consumer in this thread, which has the lock.
        with self._closing, SignalsPutOff(lambda: None):
            if self._decisions is decisions:
                self._close(decisions)

    def _close(self, decisions: DecisionQueue) -> None:
        async def close() -> None:
            decisions.close()
            self._loops.leave_walk()
            await self._consumer.close()

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
        return cast(
            "Iterator[RecordT_co]", RecordLoop(self._for_a_loop(), is_implicit=self.config.is_implicit)
        )

    def batches(self) -> Iterator[ShareBatch[RecordT_co]]:
        """Iterate over batches: records of one partition that were acquired together."""
        loop = BatchLoop(self._for_a_loop(), is_implicit=self.config.is_implicit)
        return cast("Iterator[ShareBatch[RecordT_co]]", loop)

    def _for_a_loop(self) -> OpenedBatch:
        self._opened()
        self._loops.require_turn()
        self._loops.give_back()
        return self._loops

    def _take_turn(self) -> None:
        decisions = self._opened()
        if not decisions.loop.take_turn(self._look_around):
            decisions.schedule()

    def _look_around(self) -> None:
        """In the event loop."""
        self._opened().clear()
        self._slice_size = self._source.slice_size()

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

    def pause(self, *, release: bool = False) -> None:
        """Stop fetching, until `resume`; see `kshare.ShareConsumer.pause`."""
        self._call(lambda: self._consumer.pause(release=release))

    def resume(self) -> None:
        """Fetch again, after `pause`."""
        self._call(self._consumer.resume)

    @property
    def is_drained(self) -> bool:
        """Whether a paused consumer has nothing more to hand out, and no fetch is in flight that may return more."""
        return self._consumer.is_drained

    def set_max_records(self, records: int) -> None:
        """Replace the limit `max_records`, while the consumer runs; see `kshare.ShareConsumer.set_max_records`."""
        self._call(lambda: self._consumer.set_max_records(records))

    @overload
    def next_batch(self, timeout: None = None) -> ShareBatch[RecordT_co]: ...
    @overload
    def next_batch(self, timeout: float | None) -> ShareBatch[RecordT_co] | None: ...
    def next_batch(self, timeout: float | None = None) -> ShareBatch[RecordT_co] | None:
        """Wait for a batch and return it, as `batches` does, but never accept anything implicitly.

        Returns None if there is none within `timeout` seconds; 0 doesn't wait.
        """
        if timeout is not None and (not isinstance(timeout, int | float) or not timeout >= 0):
            raise ConfigError(f"timeout must be a number of seconds, 0 or more, not {timeout!r}")
        self._loops.require_turn()
        if not self._loops.has_loops:
            self._loops.give_back()
        return cast("ShareBatch[RecordT_co] | None", self._next_batch_within(timeout))

    def _next_batch(self) -> AnyBatch:
        batch = self._next_batch_within(None)
        assert batch is not None, "it waits as long as it takes"
        return batch

    def _next_batch_within(self, timeout: float | None) -> AnyBatch | None:
        call = _BatchCall()
        self._make(call, lambda: self._fetch(call, timeout))
        return call.batch

    def _open_batch(self, deliver: Callable[[AnyBatch], None]) -> None:
        call = _BatchCall(deliver)
        self._make(call, lambda: self._fetch(call, None))

    def _open_urgent(self, deliver: Callable[[AnyBatch], None], delivery_count: int) -> None:
        call = _BatchCall(deliver)
        self._make(call, lambda: self._fetch_urgent(call, delivery_count))

    def _make(self, call: _BatchCall, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._loops.require_turn()
        self._require_other_thread("this call", self._opened())
        try:
            self._run(function)
        except BaseException:
            call.is_over = True
            if call.batch is not None:
                self._source.inbox.park(iter(call.batch))
            raise

    async def _fetch(self, call: _BatchCall, timeout: float | None) -> None:
        """One call at a time: an interrupt while a task is started leaves a task that nobody cancels."""
        with anyio.move_on_after(None if timeout is None else max(timeout, _LOOK_S)):
            async with self._turn:
                self._hand_over(call, await self._source.next_batch())

    async def _fetch_urgent(self, call: _BatchCall, delivery_count: int) -> None:
        if self._turn.locked():
            return  # another thread is waiting, and gets it
        async with self._turn:
            batch = await self._source.take_urgent(delivery_count)
            if batch is not None:
                self._hand_over(call, batch)

    def _hand_over(self, call: _BatchCall, batch: AnyBatch) -> None:
        assert self._decisions is not None, "only an open consumer fetches"
        settle_through(batch, self._decisions)
        self._slice_size = self._source.slice_size()
        if call.is_over:
            self._source.inbox.park(iter(batch))
        elif call.deliver is not None:
            call.deliver(batch)
        else:
            call.batch = batch

    def _require_other_thread(self, what: str, decisions: DecisionQueue) -> None:
        if decisions.loop.is_run_here:
            raise KshareError(
                f"{what} waits for the consumer's event loop, so observers, which that loop calls, can't call it"
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
            f"the consumer of group {self.config.group!r} was closed; open another one to continue"
        )


class ShareConsumer(BlockingConsumer[RecordT_co]):
    """A consumer in a share group, for blocking code: use it with `with` and `for`.

    Options are those of `kshare.ShareConsumer`.
    """

    __module__ = "kshare.sync"

    # Which deserializers make which records: see `kshare.ShareConsumer`.

    if TYPE_CHECKING:

        @overload
        def __new__(
            cls,
            bootstrap_servers: BootstrapServers = None,
            **options: Unpack[KeyAndValueOptions[AwaitedDeserializer[KeyT], AwaitedDeserializer[ValueT]]],
        ) -> ShareConsumer[ReadRecord[KeyT | None, ValueT | None]]: ...
        @overload
        def __new__(
            cls,
            bootstrap_servers: BootstrapServers = None,
            **options: Unpack[KeyAndValueOptions[AwaitedDeserializer[KeyT], PlainDeserializer[ValueT]]],
        ) -> ShareConsumer[ReadRecord[KeyT | None, ValueT | None]]: ...
        @overload
        def __new__(
            cls,
            bootstrap_servers: BootstrapServers = None,
            **options: Unpack[KeyAndValueOptions[PlainDeserializer[KeyT], AwaitedDeserializer[ValueT]]],
        ) -> ShareConsumer[ReadRecord[KeyT | None, ValueT | None]]: ...
        @overload
        def __new__(
            cls,
            bootstrap_servers: BootstrapServers = None,
            **options: Unpack[KeyAndValueOptions[PlainDeserializer[KeyT], PlainDeserializer[ValueT]]],
        ) -> ShareConsumer[ReadRecord[KeyT | None, ValueT | None]]: ...
        @overload
        def __new__(
            cls,
            bootstrap_servers: BootstrapServers = None,
            **options: Unpack[ValueOptions[Callable[[bytes], Awaitable[ValueT]]]],
        ) -> ShareConsumer[ReadRecord[bytes | None, ValueT | None]]: ...
        @overload
        def __new__(
            cls,
            bootstrap_servers: BootstrapServers = None,
            **options: Unpack[ValueOptions[Callable[[bytes], ValueT]]],
        ) -> ShareConsumer[ReadRecord[bytes | None, ValueT | None]]: ...
        @overload
        def __new__(
            cls,
            bootstrap_servers: BootstrapServers = None,
            **options: Unpack[ValueOptions[Callable[[bytes, DeserializerContext], Awaitable[ValueT]]]],
        ) -> ShareConsumer[ReadRecord[bytes | None, ValueT | None]]: ...
        @overload
        def __new__(
            cls,
            bootstrap_servers: BootstrapServers = None,
            **options: Unpack[ValueOptions[Callable[[bytes, DeserializerContext], ValueT]]],
        ) -> ShareConsumer[ReadRecord[bytes | None, ValueT | None]]: ...
        @overload
        def __new__(
            cls,
            bootstrap_servers: BootstrapServers = None,
            **options: Unpack[KeyOptions[Callable[[bytes], Awaitable[KeyT]]]],
        ) -> ShareConsumer[ReadRecord[KeyT | None, bytes | None]]: ...
        @overload
        def __new__(
            cls,
            bootstrap_servers: BootstrapServers = None,
            **options: Unpack[KeyOptions[Callable[[bytes], KeyT]]],
        ) -> ShareConsumer[ReadRecord[KeyT | None, bytes | None]]: ...
        @overload
        def __new__(
            cls,
            bootstrap_servers: BootstrapServers = None,
            **options: Unpack[KeyOptions[Callable[[bytes, DeserializerContext], Awaitable[KeyT]]]],
        ) -> ShareConsumer[ReadRecord[KeyT | None, bytes | None]]: ...
        @overload
        def __new__(
            cls,
            bootstrap_servers: BootstrapServers = None,
            **options: Unpack[KeyOptions[Callable[[bytes, DeserializerContext], KeyT]]],
        ) -> ShareConsumer[ReadRecord[KeyT | None, bytes | None]]: ...
        @overload
        def __new__(
            cls, bootstrap_servers: BootstrapServers = None, **options: Unpack[BytesOptions]
        ) -> ShareConsumer[ShareRecord]: ...
        def __new__(cls, bootstrap_servers: BootstrapServers = None, **options: Any) -> Any: ...
