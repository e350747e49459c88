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
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar, Unpack, cast, overload

import anyio

from kshare.client.config import ConsumerConfig
from kshare.client.consumer import AsyncConsumer as _Consumer
from kshare.client.consumer import BootstrapServers, TopicPartition, source_of
from kshare.client.deserialize import KeyT, ReadRecord, RecordT_co, TypedBatch, ValueT
from kshare.client.deserializer_calls import AwaitedDeserializer, DeserializerContext, PlainDeserializer
from kshare.client.record import BatchIterator, ShareBatch, ShareRecord, lease_of, settle_held, settle_through
from kshare.errors import ConfigError, ConsumerClosed, KshareError
from kshare.state.lease import RELEASE
from kshare.sync.decision_queue import DecisionQueue, Passage
from kshare.sync.shared_loop import LoopClosed
from kshare.sync.signals import SignalsPutOff

if TYPE_CHECKING:
    from kshare.client.options import AnyOptions, BytesOptions, KeyAndValueOptions, KeyOptions, ValueOptions

log = logging.getLogger("kshare.client")

ReturnT = TypeVar("ReturnT")

_ATTEMPTS = 100
"""More signals than arrive while a consumer begins to close."""
_LOOK_S = 0.001
"""The minimum time to wait for records: enough to take those that are available."""


class _Stretch(NamedTuple):
    """The next records of the current batch, as many as may be handed out before the event loop has to run."""

    records: Iterator[ShareRecord]
    batch: BatchIterator | None
    is_cut: bool
    """The batch may have more."""


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
        self._iterating: dict[object, threading.Thread] = {}
        """The loops that haven't ended, and their thread."""
        self._handed: ShareBatch | None = None
        self._fetching: object = None
        """The call for which a batch is fetched."""
        self._left: deque[ShareRecord | ShareBatch] = deque()
        """What loops had in hand when they were left. Any thread may add to it, as the garbage collector runs."""
        self._turn = asyncio.Lock()
        self._loops: set[object] = set()
        """One object for each loop over records that hasn't ended."""
        self._loops_lock = threading.RLock()
        """Loops that are garbage end in any thread."""
        self._walk: BatchIterator | None = None
        """The batch whose records all loops take. When the last loop ends, it is parked in the consumer's inbox."""
        self._ahead = 0
        """How many records the current batch may still have."""
        self._burst_size = 1
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
            _finish(self.close)
            raise
        return self

    def _open(self) -> None:
        with SignalsPutOff(lambda: None):  # an interrupt here would leave a thread that nobody knows of
            self._is_closed = False
            decisions = self._decisions = DecisionQueue(self._consumer)
        self._handed, self._walk, self._ahead = None, None, 0
        self._left.clear()
        self._loops.clear()
        self._iterating.clear()
        self._turn = asyncio.Lock()
        decisions.loop.run(self._consumer.__aenter__)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            _finish(self.close)
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
        with self._closing:
            if not self._is_closed:
                self._close(decisions)

    def _close(self, decisions: DecisionQueue) -> None:
        """As with the async consumer, an interrupt doesn't end this: it takes effect when the group has been left."""

        async def close() -> None:
            decisions.close()
            await self._consumer.close()

        with SignalsPutOff(lambda: None):
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
        records = self._accepting() if self.config.is_implicit else self._walking()
        return cast("Iterator[RecordT_co]", records)

    def _walking(self) -> Iterator[ShareRecord]:
        with self._turn_to_iterate(), self._sharing_a_batch():
            while True:
                stretch = self._next_stretch()
                yield from stretch.records
                self._go_on(stretch)

    def _next_stretch(self) -> _Stretch:
        walk = self._walk
        if walk is None or self._ahead <= self._burst_size:
            return _Stretch(walk or iter(()), walk, is_cut=False)
        self._ahead -= self._burst_size
        return _Stretch(islice(walk, self._burst_size), walk, is_cut=True)

    def _go_on(self, after: _Stretch) -> None:
        """Let the event loop run, and get the next batch if this one has no more records."""
        if after.is_cut:
            decisions = self._opened()
            if not decisions.loop.take_turn(self._look_around):
                decisions.schedule()
        elif self._walk is after.batch:  # otherwise another loop has got the next batch
            self._give_back()
            batch = self._next_batch()
            self._walk, self._ahead = iter(batch), len(batch)

    def _look_around(self) -> None:
        """In the event loop."""
        self._opened().clear()
        self._burst_size = self._source.burst_size()

    @contextmanager
    def _turn_to_iterate(self) -> Iterator[None]:
        """For the duration of a loop, until it ends or is left."""
        self._require_turn()
        loop = object()
        self._iterating[loop] = threading.current_thread()
        try:
            yield
        finally:
            self._iterating.pop(loop, None)

    @contextmanager
    def _sharing_a_batch(self) -> Iterator[None]:
        """For the duration of a loop over records: it takes them from the batch that other loops have opened."""
        loop = object()
        with self._loops_lock:
            self._loops.add(loop)
            if len(self._loops) == 1:
                self._walk = self._source.inbox.take_parked()
                self._ahead = self._ahead if self._walk else 0
        try:
            yield
        finally:
            with self._loops_lock:
                self._loops.discard(loop)
                if not self._loops and self._walk is not None:
                    self._source.inbox.park(self._walk)
                    self._walk = None

    def _require_turn(self) -> None:
        """Raise if another thread iterates: its records would be released or accepted by this one."""
        for other in list(self._iterating.values()):
            if other is threading.current_thread() or not other.is_alive():
                continue
            raise KshareError(
                f"thread {other.name!r} iterates over this consumer, and only one at a time may: give each thread a "
                "consumer of its own, or let one iterate and hand records to the others"
            )

    def _accepting(self) -> Iterator[ShareRecord]:
        with self._turn_to_iterate(), self._sharing_a_batch():
            progress: Passage | None = None
            thread = get_ident()
            while True:
                decisions, stretch = self._opened(), self._next_stretch()
                record_away: ShareRecord | None = None
                try:
                    for record in stretch.records:
                        # First: an interrupt from here on must not accept what the user hasn't seen.
                        record_away = record
                        if progress is None or progress.is_over:
                            progress = self._begin_passage(record, progress)
                        progress.at = record
                        yield record
                        if get_ident() != thread:
                            thread = self._hand_over(record)
                        record_away = None
                finally:
                    if record_away is not None:
                        self._left.append(record_away)
                    elif progress is not None:
                        decisions.come_back(progress)
                self._go_on(stretch)
                if not stretch.is_cut:
                    progress = None

    def _hand_over(self, current: ShareRecord | ShareBatch) -> int:
        """Called if another thread asks for what follows. Returns its id, or raises: it can't know what is finished."""
        self._call(lambda: None)  # applies decisions that are queued
        if isinstance(current, ShareBatch):
            is_held = current.is_held
        else:
            is_held = lease_of(current.batch).is_held(current.offset)
        if is_held:
            raise KshareError(
                f"this iterator is shared by several threads, and {current!r} isn't acknowledged: continuing would "
                "accept a record that is still being processed. Let one thread iterate and hand records to the others, "
                'with acknowledgement="explicit"'
            )
        return get_ident()

    def _begin_passage(self, first: ShareRecord, before: Passage | None) -> Passage:
        """`before` ended when another loop took a record."""
        decisions = self._opened()
        if before is not None:
            decisions.come_back(before)
        return decisions.begin(first)

    def batches(self) -> Iterator[TypedBatch[RecordT_co]]:
        """Iterate over batches: records of one partition that were acquired together."""
        self._require_turn()
        self._give_back()
        return cast("Iterator[TypedBatch[RecordT_co]]", self._batches())

    def _batches(self) -> Iterator[ShareBatch]:
        with self._turn_to_iterate():
            while True:
                batch, thread = self._next_batch(), get_ident()
                is_away = True
                try:
                    yield batch
                    if get_ident() != thread and self.config.is_implicit:
                        self._hand_over(batch)
                    is_away = False
                finally:
                    if is_away and self.config.is_implicit:
                        self._left.append(batch)
                if self.config.is_implicit:
                    self._opened().accept_batch(batch)

    def _give_back(self) -> None:
        """Release what loops that were left had in hand: they won't continue."""
        while self._left:
            left, decisions = self._left.popleft(), self._opened()
            decisions.end()
            if isinstance(left, ShareBatch):
                settle_held(left, RELEASE)
            else:
                decisions.settle_if_held(lease_of(left.batch), left.offset, RELEASE)

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

    def pause(self) -> None:
        """Stop fetching, until `resume`. Records that were acquired already are still handed out."""
        self._call(self._consumer.pause)

    def resume(self) -> None:
        """Fetch again, after `pause`."""
        self._call(self._consumer.resume)

    @property
    def is_drained(self) -> bool:
        """Whether a paused consumer has handed out everything, and no fetch is under way that may bring more."""
        return self._consumer.is_drained

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
        if not self._iterating:
            self._give_back()
        return cast("TypedBatch[RecordT_co] | None", self._next_batch_within(timeout))

    def _next_batch(self) -> ShareBatch:
        batch = self._next_batch_within(None)
        assert batch is not None, "it waits as long as it takes"
        return batch

    def _next_batch_within(self, timeout: float | None) -> ShareBatch | None:
        """Return the batch that an interrupted call had fetched already, or wait for one."""
        self._require_turn()
        self._require_other_thread("this call", self._opened())
        if self._handed is None:
            call = self._fetching = object()
            try:
                self._run(lambda: self._fetch(call, timeout))
            except BaseException:
                self._fetching = None
                if self._handed is not None:
                    self._source.inbox.park(iter(self._handed))
                    self._handed = None
                raise
        batch, self._handed = self._handed, None
        return batch

    async def _fetch(self, call: object, timeout: float | None) -> None:
        """One call at a time: an interrupt while a task is started leaves a task that nobody cancels."""
        with anyio.move_on_after(None if timeout is None else max(timeout, _LOOK_S)):
            async with self._turn:
                if self._handed is None:
                    assert self._decisions is not None, "only an open consumer fetches"
                    batch = await self._source.next_batch()
                    settle_through(batch, self._decisions)
                    self._burst_size = self._source.burst_size()
                    if self._fetching is call:
                        self._handed = batch
                    else:  # its caller was interrupted
                        self._source.inbox.park(iter(batch))

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


def _finish(close: Callable[[], None]) -> None:
    """Call it again if a signal handler raised before it began, as that of Ctrl-C does. Raises that at the end."""
    interruption: BaseException | None = None
    for _ in range(_ATTEMPTS):
        try:
            close()
        except KshareError:
            raise
        except BaseException as error:
            interruption = interruption or error
        else:
            break
    if interruption is not None:
        raise interruption
