"""The share consumer for programs without an event loop.

    with kshare.sync.ShareConsumer("localhost:9092", group="orders", topics=["orders"]) as consumer:
        for record in consumer:
            ship(record.value)

The same consumer as `kshare.ShareConsumer`, run by an event loop in a thread of its own; the same options, records and
batches, and the same rules for what is accepted when. The two threads meet once a batch, not once a record: records are
read in the thread that iterates. What is decided about them isn't written into the leases from there, since the loop
works on those all the time; it lies on a desk, and the loop writes it: at once while little comes, every few
milliseconds while much does, and always before it hands out the next batch, commits or closes. What a loop accepts
by going on isn't even queued: the desk knows how far it has come.

Records may be settled from any thread, and any thread may close the consumer. Only one at a time may iterate: another
that tries gets an error. `on_settled` and `observer` are called in the loop's thread.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, cast, overload

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from kshare.client.config import ConsumerConfig
from kshare.client.consumer import AsyncConsumer as _Consumer
from kshare.client.consumer import Servers, TopicPartition, source_of
from kshare.client.deserialize import KeyT, ReadRecord, RecordT_co, TypedBatch, ValueT
from kshare.client.record import (
    ShareBatch,
    ShareRecord,
    lease_of,
    lost_spans_of,
    settle_held,
    settle_through,
    spans_of,
)
from kshare.errors import ConfigError, ConsumerClosed, KshareError
from kshare.state.lease import ACCEPT, RELEASE, Lease

if TYPE_CHECKING:
    from kshare.client.options import AnyOptions, BytesOptions, KeyAndValueOptions, KeyOptions, ValueOptions

__all__ = ["ShareConsumer"]

log = logging.getLogger("kshare.client")

ReturnT = TypeVar("ReturnT")

_GATHER_S = 0.003
_LOOK_S = 0.001
"""The least that a wait for records takes: enough to take what is there."""


class BlockingConsumer(Generic[RecordT_co]):
    """What `ShareConsumer` does."""

    def __init__(self, bootstrap_servers: Servers = None, **options: Unpack[AnyOptions]) -> None:
        self._consumer: _Consumer[Any] = _Consumer(bootstrap_servers, **options)
        self._stack: ExitStack | None = None
        self._closing = threading.Lock()
        """Held while one thread closes, so that others can wait for that."""
        self._is_closed = False
        self._iterating: tuple[threading.Thread, object] | None = None
        """The thread whose loop has begun and isn't left, and which loop it is."""
        self._loop_thread = 0
        self._handed: ShareBatch | None = None
        self._in_hand: ShareRecord | ShareBatch | None = None
        self._turn = anyio.Lock()
        self._walk: Iterator[ShareRecord] = iter(())

    def __enter__(self) -> Self:
        """Reaches a broker, or says why it can't; joining the group goes on in the background."""
        if self._stack is not None:
            raise KshareError("the consumer is open already: make one for each `with`")
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal())
            stack.callback(
                self._portal.call, self._portal.stop, True
            )  # interrupted calls may have left tasks
            self._loop_thread = self._portal.call(threading.get_ident)
            inner = self._portal.wrap_async_context_manager(self._consumer)
            inner.__enter__()
            # What ended the block is of no concern to the loop, where it would come back as part of a group.
            stack.callback(inner.__exit__, None, None, None)
            self._desk = _Desk(self._portal, self._consumer)
            stack.callback(self._portal.call, self._desk.close)
            self._handed, self._in_hand, self._walk = None, None, iter(())
            self._is_closed, self._iterating = False, None
            self._stack = stack.pop_all()
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
        """Settles in bounded time: what was acknowledged is sent, the rest released, the group left.

        At the end of `with` it is called for you. Any thread may call it, at any time, and again: all calls return when
        the consumer is closed. A thread that waits for records gets ConsumerClosed.
        """
        self._require_other_thread("close()")
        with self._closing:
            stack, self._stack = self._stack, None
            if stack is not None:
                self._is_closed = True
                try:
                    stack.close()
                finally:
                    self._loop_thread = 0

    @property
    def config(self) -> ConsumerConfig:
        return self._consumer.config

    @property
    def topics(self) -> tuple[str, ...]:
        """What is subscribed to now."""
        return self._consumer.topics

    def __iter__(self) -> Iterator[RecordT_co]:
        """Record by record. A loop that was left goes on where it was left, after the record then at hand."""
        self._require_turn()
        self._give_back()
        records = self._accepting() if self.config.is_implicit else self._walking()
        return cast("Iterator[RecordT_co]", records)

    def _walking(self) -> Iterator[ShareRecord]:
        with self._turn_to_iterate():
            while True:
                yield from self._walk
                self._walk = iter(self._next_batch())

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
            while True:
                passage: _Passage | None = None
                for record in self._walk:
                    self._in_hand = record
                    passage = passage or self._desk.begin(record)
                    yield record
                    passage.passed = record.offset
                    if not self._desk.is_attended:
                        self._desk.attend()
                self._walk = iter(self._next_batch())

    def batches(self) -> Iterator[TypedBatch[RecordT_co]]:
        """Batch by batch: records of one partition that were acquired together."""
        self._require_turn()
        self._give_back()
        return cast("Iterator[TypedBatch[RecordT_co]]", self._batches())

    def _batches(self) -> Iterator[ShareBatch]:
        with self._turn_to_iterate():
            while True:
                batch = self._in_hand = self._next_batch()
                yield batch
                if self.config.is_implicit:
                    self._desk.accept_batch(batch)

    def _give_back(self) -> None:
        """A new loop: the last one won't come back for what it had in hand."""
        left, self._in_hand = self._in_hand, None
        if left is None or not self.config.is_implicit:
            return
        self._desk.end()
        if isinstance(left, ShareBatch):
            settle_held(left, RELEASE)
        else:
            self._desk.settle_if_held(lease_of(left.batch), left.offset, RELEASE)

    def commit(self) -> dict[TopicPartition, KshareError | None]:
        """Wait until everything acknowledged so far is confirmed or refused; see `kshare.ShareConsumer.commit`."""
        return self._run(self._consumer.commit)

    @property
    def member_id(self) -> str:
        """What the group calls this member, once the consumer is open."""
        return self._consumer.member_id

    @property
    def can_renew(self) -> bool:
        """Whether locks are renewed: brokers can since Kafka 4.2, and `renew_leases` may be off."""
        return self._consumer.can_renew

    def subscribe(self, topics: Iterable[str]) -> None:
        """Want these topics from now on, and no others."""
        self._call(lambda: self._consumer.subscribe(topics))

    def stop_acquiring(self) -> None:
        """Ask for no more records: those in your hands are yours to settle, and are renewed as before."""
        self._call(self._consumer.stop_acquiring)

    def set_max_records(self, records: int) -> None:
        """Hold at most so many records from now on, instead of `max_records`. What is held already stays."""
        self._call(lambda: self._consumer.set_max_records(records))

    @overload
    def next_batch(self, timeout: None = None) -> TypedBatch[RecordT_co]: ...
    @overload
    def next_batch(self, timeout: float | None) -> TypedBatch[RecordT_co] | None: ...
    def next_batch(self, timeout: float | None = None) -> TypedBatch[RecordT_co] | None:
        """Records of one partition that were acquired together; what `batches` gives, without accepting anything.

        None if there are none within `timeout` seconds; 0 doesn't wait.
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
                    batch = await self._consumer.next_batch()
                    settle_through(batch, self._desk)
                    self._handed = batch

    def _require_other_thread(self, what: str) -> None:
        if threading.get_ident() == self._loop_thread:
            raise KshareError(
                f"{what} waits for the consumer's event loop, so observers, which that loop calls, can't call it"
            )

    def _call(self, function: Callable[[], None]) -> None:
        """In the loop's thread; see `_run`."""

        async def call() -> None:
            function()

        self._run(call)

    def _run(self, function: Callable[[], Awaitable[ReturnT]]) -> ReturnT:
        """In the loop's thread, after everything that was decided so far. An interrupt, such as Ctrl-C, ends it."""
        if self._is_closed:
            raise self._closed()
        if self._stack is None:
            raise KshareError("the consumer isn't open: write `with ShareConsumer(...) as consumer:`")
        self._require_other_thread("this call")

        async def run() -> ReturnT:
            self._desk.clear()
            return await function()

        try:
            future = self._portal.start_task_soon(run)
        except RuntimeError as error:  # its loop has ended meanwhile
            raise self._closed() from error
        try:
            return future.result()
        except CancelledError as error:
            raise self._closed() from error
        finally:
            future.cancel()

    def _closed(self) -> ConsumerClosed:
        return ConsumerClosed(
            f"the consumer of group {self.config.group!r} was closed; open another one to go on"
        )


class ShareConsumer(BlockingConsumer[RecordT_co]):
    """A member of a share group. Options are those of `kshare.ShareConsumer`."""

    # Which deserializers make which records: see `kshare.ShareConsumer`.

    if TYPE_CHECKING:

        @overload
        def __new__(
            cls, bootstrap_servers: Servers = None, **options: Unpack[KeyAndValueOptions[KeyT, ValueT]]
        ) -> ShareConsumer[ReadRecord[KeyT | None, ValueT | None]]: ...
        @overload
        def __new__(
            cls, bootstrap_servers: Servers = None, **options: Unpack[ValueOptions[ValueT]]
        ) -> ShareConsumer[ReadRecord[bytes | None, ValueT | None]]: ...
        @overload
        def __new__(
            cls, bootstrap_servers: Servers = None, **options: Unpack[KeyOptions[KeyT]]
        ) -> ShareConsumer[ReadRecord[KeyT | None, bytes | None]]: ...
        @overload
        def __new__(
            cls, bootstrap_servers: Servers = None, **options: Unpack[BytesOptions]
        ) -> ShareConsumer[ShareRecord]: ...
        def __new__(cls, bootstrap_servers: Servers = None, **options: Any) -> Any: ...


class _Passage:
    """How far a loop has come in a lease. The user's thread moves `passed`, the loop's everything else."""

    __slots__ = ("_batch", "_consumer", "_next", "passed")

    def __init__(self, first: ShareRecord, consumer: _Consumer[Any]) -> None:
        self._batch = first.batch
        self._consumer = consumer
        self._next = first.offset
        self.passed = first.offset - 1
        """The last offset that the loop came back from."""

    def accept(self, last: int, kind: int = ACCEPT) -> None:
        """Up to this one, what isn't decided."""
        lease = lease_of(self._batch)
        for offset in range(self._next, last + 1):
            lease.decide_if_held(offset, kind)
        lost = lost_spans_of(self._batch, self._next, last) if lease.why_lost else []
        if lost:
            source_of(self._consumer).on_too_late(self._batch, lost)
        self._next = max(self._next, last + 1)

    @property
    def is_behind(self) -> bool:
        return self._next <= self.passed


_Decide = Callable[[Any, int, int], object]
_decide: _Decide = Lease.decide
_decide_if_held: _Decide = Lease.decide_if_held
_accept: _Decide = _Passage.accept


def _accept_batch(subject: tuple[_Consumer[Any], ShareBatch], _offset: int, kind: int) -> None:
    consumer, batch = subject
    lost = [span for first, last in spans_of(batch) for span in lost_spans_of(batch, first, last)]
    lease_of(batch).decide_held(kind)
    if lost:
        source_of(consumer).on_too_late(batch, lost)


def _decide_all(lease: Lease, _offset: int, kind: int) -> None:
    lease.decide_held(kind)


class _Desk:
    """Where decisions wait for the loop's thread. May be called in any thread, but for `clear` and `close`.

    Each is a function, what it is called on, an offset and a type: so thousands wait cheaply, in the order they came.
    """

    def __init__(self, portal: BlockingPortal, consumer: _Consumer[Any]) -> None:
        self._portal = portal
        self._consumer = consumer
        self._decided: deque[tuple[_Decide, Any, int, int]] = deque()
        self._passage: _Passage | None = None
        self._is_closed = False
        self.is_attended = False
        """Somebody looks again soon."""

    def settle(self, lease: Lease, offset: int, kind: int) -> bool:
        """False when it is too late. What comes too late only now, on the way to the loop, is as good as expired."""
        if not lease.can_decide(offset):
            return False
        self._decided.append((_decide, lease, offset, kind))
        if not self.is_attended:
            self.attend()
        return True

    def settle_if_held(self, lease: Lease, offset: int, kind: int) -> None:
        self._decided.append((_decide_if_held, lease, offset, kind))
        self.attend()

    def accept_batch(self, batch: ShareBatch) -> None:
        """A loop came back from it: what of it is lost is told, not raised."""
        self._decided.append((_accept_batch, (self._consumer, batch), 0, ACCEPT))
        self.attend()

    def settle_all(self, lease: Lease, kind: int) -> None:
        self._decided.append((_decide_all, lease, 0, kind))
        self.attend()

    def begin(self, first: ShareRecord) -> _Passage:
        """A loop came to this record, and accepts what it passes from here on."""
        self.end()
        self._passage = _Passage(first, self._consumer)
        return self._passage

    def end(self) -> None:
        """It passes no more of them: what is decided from now on comes after what it accepted."""
        passage, self._passage = self._passage, None
        if passage is not None:
            self._decided.append((_accept, passage, passage.passed, ACCEPT))
            self.attend()

    def clear(self) -> None:
        """In the loop's thread."""
        passage = self._passage
        # First: what the user said of a record, it said before it passed it, and that counts.
        passed = passage.passed if passage else 0
        for _ in range(len(self._decided)):
            decide, subject, offset, kind = self._decided.popleft()
            decide(subject, offset, kind)
        if passage:
            passage.accept(passed)

    def close(self) -> None:
        """In the loop's thread. What is decided from now on is as good as unsaid: all leases end."""
        self._is_closed = True
        self.clear()

    def attend(self) -> None:
        """Have the loop look, if nobody does."""
        if not self.is_attended and not self._is_closed:
            self.is_attended = True
            self._portal.start_task_soon(self._attend)

    async def _attend(self) -> None:
        """Until nothing comes for a while. The flag goes down before the last look, so nothing is left lying."""
        while True:
            self.clear()
            await anyio.sleep(_GATHER_S)
            if not self._has_news:
                self.is_attended = False
                if not self._has_news:
                    return
                self.is_attended = True

    @property
    def _has_news(self) -> bool:
        passage = self._passage
        return bool(self._decided) or (passage is not None and passage.is_behind)
