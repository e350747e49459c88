"""The share consumer for programs without an event loop.

    with kshare.sync.ShareConsumer("localhost:9092", group="orders", topics=["orders"]) as consumer:
        for record in consumer:
            ship(record.value)

The same consumer as `kshare.ShareConsumer`, run by an event loop in a thread of its own; the same options, records and
batches, and the same rules for what is accepted when. The two threads meet once a batch, not once a record: records are
read in the thread that iterates. What is decided about them isn't written into the leases from there, since the loop
works on those all the time; it is queued, and the loop writes it: at once while little comes, every few milliseconds
while much does, and always before it hands out the next batch, commits or closes.

Records may be settled from any thread. Only one at a time may iterate. `on_settled` and `observer` are called in the
loop's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast, overload

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from kshare.client.config import ConsumerConfig
from kshare.client.consumer import Servers, TopicPartition
from kshare.client.consumer import ShareConsumer as _Consumer
from kshare.client.deserialize import KeyT, ReadRecord, RecordT_co, ValueT
from kshare.client.record import ShareBatch, ShareRecord
from kshare.client.streams import Shelf
from kshare.errors import KshareError
from kshare.state.lease import ACCEPT, RELEASE, Lease

ReturnT = TypeVar("ReturnT")

_GATHER_S = 0.003


class ShareConsumer(Generic[RecordT_co]):
    """Options are those of `kshare.ShareConsumer`."""

    @overload
    def __init__(
        self: ShareConsumer[ReadRecord[KeyT | None, ValueT | None]],
        bootstrap_servers: Servers = None,
        *,
        key_deserializer: Callable[[bytes], KeyT],
        value_deserializer: Callable[[bytes], ValueT],
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: ShareConsumer[ReadRecord[bytes | None, ValueT | None]],
        bootstrap_servers: Servers = None,
        *,
        value_deserializer: Callable[[bytes], ValueT],
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: ShareConsumer[ReadRecord[KeyT | None, bytes | None]],
        bootstrap_servers: Servers = None,
        *,
        key_deserializer: Callable[[bytes], KeyT],
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: ShareConsumer[ShareRecord], bootstrap_servers: Servers = None, **options: Any
    ) -> None: ...
    def __init__(self, bootstrap_servers: Servers = None, **options: Any) -> None:
        self._consumer: _Consumer = _Consumer(bootstrap_servers, **options)
        self._stack: ExitStack | None = None
        self._handed: ShareBatch | None = None
        self._in_hand: ShareRecord | ShareBatch | None = None
        self._turn = anyio.Lock()
        self._shelf = Shelf()

    def __enter__(self) -> Self:
        """Reaches a broker, or says why it can't; joining the group goes on in the background."""
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal())
            stack.callback(
                self._portal.call, self._portal.stop, True
            )  # interrupted calls may have left tasks
            inner = self._portal.wrap_async_context_manager(self._consumer)
            inner.__enter__()
            # What ended the block is of no concern to the loop, where it would come back as part of a group.
            stack.callback(inner.__exit__, None, None, None)
            self._desk = _Desk(self._portal)
            stack.callback(self._portal.call, self._desk.close)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Settles in bounded time: what was acknowledged is sent, the rest released, the group left."""
        stack, self._stack = self._stack, None
        assert stack is not None, "entered before"
        stack.__exit__(kind, error, trace)

    @property
    def config(self) -> ConsumerConfig:
        return self._consumer.config

    @property
    def topics(self) -> tuple[str, ...]:
        """What is subscribed to now."""
        return self._consumer.topics

    def __iter__(self) -> Iterator[RecordT_co]:
        """Record by record. A loop that was left goes on where it was left, after the record then at hand."""
        self._give_back()
        shelf, is_implicit = self._shelf, self._consumer.is_implicit
        while True:
            record = shelf.next_held()
            while record is None:
                shelf.put(self._next_batch())
                record = shelf.next_held()
            self._in_hand = record
            yield cast("RecordT_co", record)
            if is_implicit:
                self._desk.settle_if_held(record.batch.lease, record.offset, ACCEPT)

    def batches(self) -> Iterator[ShareBatch]:
        """Batch by batch: records of one partition that were acquired together."""
        self._give_back()
        while True:
            batch = self._in_hand = self._next_batch()
            yield batch
            if self._consumer.is_implicit:
                batch.accept()

    def _give_back(self) -> None:
        """A new loop: the last one won't come back for what it had in hand."""
        left, self._in_hand = self._in_hand, None
        if left is None or not self._consumer.is_implicit:
            return
        if isinstance(left, ShareBatch):
            left.release()
        else:
            self._desk.settle_if_held(left.batch.lease, left.offset, RELEASE)

    def commit(self) -> dict[TopicPartition, KshareError | None]:
        """Wait until everything acknowledged so far is confirmed or refused; see `kshare.ShareConsumer.commit`."""
        return self._run(self._consumer.commit)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Want these topics from now on, and no others."""

        async def subscribe() -> None:
            self._consumer.subscribe(topics)

        self._run(subscribe)

    def _next_batch(self) -> ShareBatch:
        """One that an interrupted call had fetched already comes first."""
        if self._handed is None:
            self._run(self._fetch)
        batch, self._handed = self._handed, None
        assert batch is not None, "fetched just now"
        return batch

    async def _fetch(self) -> None:
        """In turn: an interrupt can come while a task is being started, and then nobody is there to cancel it."""
        async with self._turn:
            if self._handed is None:
                batch = await self._consumer.next_batch()
                batch.desk = self._desk
                self._handed = batch

    def _run(self, function: Callable[[], Awaitable[ReturnT]]) -> ReturnT:
        """In the loop's thread, after everything that was decided so far. An interrupt, such as Ctrl-C, ends it."""
        if self._stack is None:
            raise KshareError("the consumer isn't open: write `with ShareConsumer(...) as consumer:`")

        async def run() -> ReturnT:
            self._desk.clear()
            return await function()

        future = self._portal.start_task_soon(run)
        try:
            return future.result()
        finally:
            future.cancel()


class _Desk:
    """Where decisions wait for the loop's thread. May be called in any thread, but for `clear` and `close`."""

    def __init__(self, portal: BlockingPortal) -> None:
        self._portal = portal
        self._decided: deque[tuple[Callable[..., object], tuple[int, ...]]] = deque()
        self._is_attended = False
        self._is_closed = False

    def settle(self, lease: Lease, offset: int, kind: int) -> bool:
        """False when it is too late. What comes too late only now, on the way to the loop, is as good as expired."""
        if not lease.can_decide(offset):
            return False
        self._put(lease.decide, offset, kind)
        return True

    def settle_if_held(self, lease: Lease, offset: int, kind: int) -> None:
        self._put(lease.decide_if_held, offset, kind)

    def settle_all(self, lease: Lease, kind: int) -> None:
        self._put(lease.decide_held, kind)

    def clear(self) -> None:
        """In the loop's thread."""
        for _ in range(len(self._decided)):
            function, arguments = self._decided.popleft()
            function(*arguments)

    def close(self) -> None:
        """In the loop's thread. What is decided from now on is as good as unsaid: all leases end."""
        self._is_closed = True
        self.clear()

    def _put(self, function: Callable[..., object], *arguments: int) -> None:
        if self._is_closed:
            return
        self._decided.append((function, arguments))
        if not self._is_attended:
            self._is_attended = True
            self._portal.start_task_soon(self._attend)

    async def _attend(self) -> None:
        """Until nothing comes for a while. The flag goes down before the last look, so nothing is left lying."""
        while True:
            self.clear()
            await anyio.sleep(_GATHER_S)
            if not self._decided:
                self._is_attended = False
                if not self._decided:
                    return
                self._is_attended = True
