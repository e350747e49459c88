"""The share consumer for asyncio and trio: hands out records, takes acknowledgements, owns all of its tasks.

    async with ShareConsumer("localhost:9092", group="orders", topics=["orders"]) as consumer:
        async for record in consumer:
            await ship(record.value)

Implicit acknowledgement: a record is accepted when the loop asks for the next one. However the loop ends (break,
return, an exception, cancellation), the current record is not accepted: closing releases it, and it is redelivered.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import closing
from threading import get_ident
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, cast, overload

import anyio
from anyio.lowlevel import checkpoint

from kshare.client.background import Background
from kshare.client.config import ConsumerConfig, check_max_records, topic_names
from kshare.client.deserialize import KeyT, Reader, ReadRecord, RecordT_co, ShareBatch, ValueT
from kshare.client.deserializer_calls import AwaitedDeserializer, DeserializerContext, PlainDeserializer
from kshare.client.given_options import require_named_topics
from kshare.client.holdings import Holdings
from kshare.client.preparation import Preparer
from kshare.client.record import ShareBatch as AnyBatch
from kshare.client.record import ShareRecord, lease_of, settle_in
from kshare.client.streams import BatchStream, Inbox, RecordStream
from kshare.engine.consumer_metrics import ConsumerMetrics
from kshare.engine.member import GroupMember
from kshare.engine.reached_cluster import reached
from kshare.engine.reporter import Reporter
from kshare.engine.telemetry import TelemetryPusher
from kshare.errors import ConsumerClosed, KshareError, RequestTimedOut, own_copy
from kshare.installation import warn_if_slow
from kshare.net.clock import loop_clock
from kshare.net.pool import Pool
from kshare.surroundings import monotonic

if TYPE_CHECKING:
    from kshare.client.options import AnyOptions, BytesOptions, KeyAndValueOptions, KeyOptions, ValueOptions

log = logging.getLogger("kshare.client")

TakenT = TypeVar("TakenT")
TopicPartition = tuple[str, int]
BootstrapServers = str | Iterable[str] | None
_SLICE_S = 0.005
_LATE_RESPONSES = (
    "group %s: left, but a broker didn't respond within close_timeout (%g s); when it notices that "
    "the connection is closed, it redelivers records whose acknowledgement it hasn't received"
)
_LATE_LEAVING = (
    "group %s: leaving took longer than close_timeout (%g s); the broker will notice later, and then "
    "redeliver the records that this member hasn't settled"
)


class AsyncConsumer(Generic[RecordT_co]):
    """The implementation of `ShareConsumer`."""

    if not TYPE_CHECKING:

        def __new__(cls, *positional, **options):
            """Before `__init__`, whose own error would name a class that nobody knows."""
            require_named_topics(positional, options)
            return super().__new__(cls)

    def __init__(self, bootstrap_servers: BootstrapServers = None, **options: Unpack[AnyOptions]) -> None:
        self.config = ConsumerConfig.make(bootstrap_servers, options)
        self._settings = self.config.member_settings()
        self._reporter = Reporter(self.config.observer, self.config.on_settled, group=self.config.group)
        self._holdings: Holdings | None = None
        self._inbox = Inbox(self._on_available)
        self._reader = _reader(self.config, self._reporter)
        self._preparer: Preparer | None = None
        """For deserializers that are awaited."""
        if self._reader is not None and self._reader.is_async:
            self._preparer = Preparer(self._reader, self.config.max_lease_seconds, self._inbox.put_unprepared)
        self._queue: list[object] = []
        """Tasks that wait for records, in the order of their requests."""
        self._background: Background | None = None
        self._thread = 0
        """The id of the thread that runs the event loop."""

    async def __aenter__(self) -> Self:
        """Connect to a broker, or raise. Joining the group continues in the background."""
        if self._background is not None and not self._background.is_over:
            raise KshareError("the consumer is open already: create one for each `async with`")
        warn_if_slow()
        self._background = Background(self._live, self._on_end)
        await self._background.start()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            await self.close()
        except Exception as problem:
            if error is None:
                raise
            # The user should see the error that ended the block.
            log.error("closing the consumer failed: %s", problem, exc_info=problem)

    async def close(self) -> None:
        """Close the consumer: send acknowledgements, release all other records, leave the group.

        Takes `close_timeout` at most. Called at the end of `async with`. Any task may call it, more than once: all
        calls return when the consumer is closed. Tasks that wait for records, or ask for some later, get
        ConsumerClosed.
        """
        background = self._background
        if background is None:
            return
        background.require_own_loop()
        background.stop()
        if self._preparer is not None:
            self._preparer.stop()
        self._inbox.clear()
        if self._holdings is not None:
            self._holdings.batch_available.send()
        await background.join()

    async def _live(self, on_started: Callable[[], None], stopping: anyio.Event) -> None:
        """Run the consumer in the background task.

        It isn't cancelled along with the user's code: acknowledgements still have to be sent, and the group to be left.
        """
        with closing(self._reporter.log):
            metrics = ConsumerMetrics() if self.config.metrics_push else None
            async with reached(self._settings.net, metrics) as cluster:
                self._reporter.metrics = metrics if cluster.has_telemetry else None
                holdings = Holdings(
                    max_records=self.config.max_records,
                    max_bytes=self.config.max_bytes,
                    max_decompressed_bytes=self.config.max_decompressed_bytes,
                    lease_timers=cluster.lease_timers(
                        renews=self.config.renew_leases, max_lease_s=self.config.max_lease_seconds
                    ),
                    clock=loop_clock(),
                    reader=self._reader if self._preparer is None else None,
                    can_renew=cluster.renews,
                    reporter=self._reporter,
                    release_unattended=self._inbox.release_unattended,
                    unread=self._inbox.unread,
                )
                async with anyio.create_task_group() as tasks:
                    self._member = GroupMember(
                        self._settings,
                        cluster.pool,
                        holdings.book,
                        tasks,
                        on_failed=holdings.batch_available.send,
                    )
                    self._holdings = holdings
                    self._thread = get_ident()
                    tasks.start_soon(self._member.run)
                    pusher = self._pusher(cluster.pool)
                    if pusher is not None:
                        tasks.start_soon(pusher.run)
                    on_started()
                    await stopping.wait()
                    with anyio.move_on_after(self.config.close_timeout) as limit:
                        await self._member.close()
                    if limit.cancelled_caught:
                        late = _LATE_RESPONSES if self._member.has_left else _LATE_LEAVING
                        log.warning(late, self.config.group, self.config.close_timeout)
                    if pusher is not None and not limit.cancelled_caught:
                        await pusher.push_last()
                    tasks.cancel_scope.cancel()

    def _pusher(self, pool: Pool) -> TelemetryPusher | None:
        metrics = self._reporter.metrics
        if metrics is None:
            return None
        attributes = [("group_id", self.config.group), ("group_member_id", self._member.member_id)]
        if self.config.rack is not None:
            attributes.append(("client_rack", self.config.rack))
        return TelemetryPusher(pool, metrics, tuple(attributes))

    def _on_end(self) -> None:
        """Wake all waiting tasks, since no more records will come."""
        self._inbox.forget_dropped()
        if self._preparer is not None:
            self._preparer.stop()
        if self._holdings is not None:
            self._holdings.batch_available.send()
            self._holdings.book.changed.send()

    def __aiter__(self) -> AsyncIterator[RecordT_co]:
        """Iterate over the records.

        Any number of tasks may loop over one consumer, each with its own `async for`: they share its records.
        """
        self._held()
        stream = RecordStream(ConsumerSource(self), is_implicit=self.config.is_implicit)
        return cast("AsyncIterator[RecordT_co]", stream)

    def batches(self) -> AsyncIterator[ShareBatch[RecordT_co]]:
        """Iterate over batches: records of one partition that were acquired together."""
        self._held()
        stream = BatchStream(ConsumerSource(self), is_implicit=self.config.is_implicit)
        return cast("AsyncIterator[ShareBatch[RecordT_co]]", stream)

    async def commit(self) -> dict[TopicPartition, KshareError | None]:
        """Wait until all acknowledgements made before this call are confirmed or refused. Returns the results.

        The results are None (success) or an error for each partition. They cover everything since the previous
        commit, including records whose lock was lost while you held them. Raises RequestTimedOut if the brokers don't
        respond within `request_timeout`.
        """
        book = self._held(is_to_wait=True).book
        is_settled = False
        with book.commits.confirmation(self._member.leases) as confirmation:
            self._member.flush()
            with anyio.move_on_after(self.config.request_timeout):
                while not confirmation.is_settled:
                    if self._member.failure:
                        raise own_copy(self._member.failure)
                    self._require_background()
                    await book.changed.wait()
                is_settled = True
            if not is_settled:
                raise RequestTimedOut(
                    "acknowledgements weren't confirmed within request_timeout: their outcome is open"
                )
        return confirmation.all_results(book.topic_partition_of)

    @property
    def member_id(self) -> str:
        """The member id of this consumer in its group. Available once the consumer is open."""
        self._opened()
        return self._member.member_id

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are subscribed to now."""
        return self._member.topics if self._holdings else self.config.topics

    def subscribe(self, topics: Iterable[str]) -> None:
        """Replace the topics that are subscribed to.

        Returns at once and takes effect in the background. You still acknowledge records that were handed to you.
        Records of removed topics that are still in the buffer are released.
        """
        holdings = self._held()
        self._member.subscribe(topic_names(topics))
        holdings.keep_only(self._member.topics)

    def pause(self, *, release: bool = False) -> None:
        """Stop fetching until `resume`. You still acknowledge records that were handed to you. Their locks are renewed.

        Records that were acquired and not handed out yet are still handed out. With `release`, they are released at
        once, so that other members get them; that costs each of them a delivery.
        """
        self._held().pause(release=release)

    def resume(self) -> None:
        """Fetch again, after `pause`."""
        self._held().resume()

    @property
    def is_drained(self) -> bool:
        """Whether a paused consumer has nothing more to hand out, and no fetch is in flight that may return more."""
        holdings = self._held()
        return (
            holdings.is_paused
            and not holdings.has_waiting
            and not self._inbox.has_unread
            and not self._member.is_fetching
        )

    @property
    def can_renew(self) -> bool:
        """Whether acquisition locks are renewed: needs Kafka 4.2 or later and `renew_leases`."""
        return self._opened().book.lease_timers.can_renew

    def set_max_records(self, records: int) -> None:
        """Replace the limit `max_records`, while the consumer runs. Records that are already held are kept.

        It is at least 1: to fetch nothing, call `pause`.
        """
        check_max_records(records)
        self._held().set_most(records)

    async def next_batch(self) -> ShareBatch[RecordT_co]:
        """Wait for a batch and return it, as `batches` does, but never accept anything implicitly."""
        while True:
            batch = await self._in_turn(self._take_batch)
            if self._preparer is None or await self._is_prepared(batch, self._preparer):
                return cast("ShareBatch[RecordT_co]", batch)

    async def _is_prepared(self, batch: AnyBatch, preparer: Preparer) -> bool:
        """Deserialize the records of the batch. Returns False if their locks were lost meanwhile."""
        is_held = await preparer.prepare(batch)
        self._require_background(is_to_stay=True)
        return is_held

    def _may_go_on(self, holdings: Holdings) -> bool:
        """Whether the next record comes from a batch that is opened already."""
        return self._inbox.has_opened and holdings.look_again() <= self._inbox.delivery_count

    def _take_batch(self, holdings: Holdings) -> AnyBatch | None:
        rest = None
        if holdings.look_again() <= self._inbox.delivery_count:
            rest = self._inbox.next_rest()
        if rest is None:
            rest = self._next_batch(holdings)
        return self._inbox.next_rest() if rest is None else rest

    def _next_batch(self, holdings: Holdings) -> AnyBatch | None:
        unprepared = self._inbox.next_unprepared()
        return self._open_next(holdings) if unprepared is None else unprepared

    def _open_next(self, holdings: Holdings) -> AnyBatch | None:
        batch = holdings.next_batch()
        if batch is not None:
            settle_in(batch, self._thread)
        return batch

    def _take_unopened(self, holdings: Holdings) -> AnyBatch | bool | None:
        """True if another task has opened one."""
        if self._may_go_on(holdings):
            return True
        batch = self._next_batch(holdings)
        if batch is not None:
            return batch
        return self._inbox.has_opened or None

    def _has_opened(self, holdings: Holdings) -> bool | None:
        if not self._may_go_on(holdings):
            batch = self._open_next(holdings)
            if batch is not None:
                self._inbox.put(batch)
        return self._inbox.has_opened or None

    async def _in_turn(self, take: Callable[[Holdings], TakenT | None]) -> TakenT:
        """Wait until `take` returns something, and return that. The task that has waited longest is first."""
        holdings = self._held(is_to_wait=True)
        await checkpoint()
        metrics = self._reporter.metrics
        asked_at = metrics.on_poll() if metrics is not None else 0.0
        ticket = object()
        self._queue.append(ticket)
        try:
            while True:
                self._require_background(is_to_stay=True)
                if self._queue[0] is ticket:
                    # Another task may have blocked the event loop for long.
                    self._inbox.give_back()
                    holdings.book.check_leases()
                    taken = take(holdings)
                    if taken is not None:
                        if metrics is not None:
                            metrics.on_polled(asked_at)
                        return taken
                if self._member.failure:
                    raise own_copy(self._member.failure)
                await holdings.wait_for_batch(self._member.flush)
        finally:
            self._queue.remove(ticket)
            if self._queue:
                holdings.batch_available.send()

    def _on_available(self) -> None:
        """The inbox has something. If a loop is garbage-collected in another thread, the next request will find it."""
        if self._holdings is not None and self._holdings.waiters and self._thread == get_ident():
            self._holdings.batch_available.send()

    def _held(self, *, is_to_wait: bool = False) -> Holdings:
        holdings = self._opened()
        self._require_background(is_to_stay=True)
        if is_to_wait and self._background is not None:
            self._background.require_own_loop()
        return holdings

    def _opened(self) -> Holdings:
        if self._holdings is None:
            raise KshareError("the consumer isn't open: write `async with ShareConsumer(...) as consumer:`")
        return self._holdings

    def _require_background(self, *, is_to_stay: bool = False) -> None:
        background = self._background
        if background is None or background.is_over or (is_to_stay and background.is_stopping):
            raise ConsumerClosed(
                f"the consumer of group {self.config.group!r} was closed, and its records were released: "
                "open another consumer to continue"
            )


class ConsumerSource:
    """What loops over a consumer, `kshare.sync` and the worker need of it, and users don't."""

    def __init__(self, consumer: AsyncConsumer[Any]) -> None:
        self._consumer = consumer
        self.inbox = consumer._inbox
        self.next_batch = consumer.next_batch

    async def open_batch(self) -> None:
        """Wait until the inbox has an opened batch, from which all record loops take records."""
        consumer = self._consumer
        if consumer._preparer is None:
            await consumer._in_turn(consumer._has_opened)
            return
        taken = await consumer._in_turn(consumer._take_unopened)
        if isinstance(taken, AnyBatch) and await consumer._is_prepared(taken, consumer._preparer):
            self.inbox.put(taken)

    async def take_urgent(self, delivery_count: int) -> AnyBatch | None:
        """A batch that waits, if it was delivered more often than this. Waits only for its deserialization."""
        consumer = self._consumer
        consumer._require_background(is_to_stay=True)
        holdings = consumer._held()
        holdings.book.check_leases()
        batch = consumer._open_next(holdings) if holdings.look_again() > delivery_count else None
        if batch is None or consumer._preparer is None:
            return batch
        return batch if await consumer._is_prepared(batch, consumer._preparer) else None

    def slice_size(self) -> int:
        """Check for expired locks; return how many records may be handed out before other tasks have to run."""
        holdings = self._consumer._held()
        holdings.book.check_leases()
        return holdings.processing_rate.within(_SLICE_S)

    def check_leases(self) -> None:
        """Renew and release what has to be, and count as lost what has expired. While a response is awaited, nobody
        else does."""
        self._consumer._opened().book.check_leases()

    def most_delivered(self) -> int:
        """The highest delivery count of what waits to be opened; 0 if nothing does. In any thread."""
        return self._consumer._opened().most_delivered

    def on_lock_lost(self, batch: AnyBatch, lost: list[tuple[int, int]]) -> None:
        """A loop would have accepted these, but their lock was lost: `on_settled` and `commit` report it."""
        self._consumer._opened().book.on_lock_lost(lease_of(batch), lost)

    def undecided(self) -> int:
        """The number of records that are held, and not settled."""
        return self._consumer._opened().undecided

    def unheard_s(self) -> float:
        """Seconds since a broker last responded to a heartbeat, or to another short request."""
        self._consumer._opened()
        return monotonic() - self._consumer._member.heard_at

    def release_unseen(self, record: ShareRecord) -> bool:
        """Release a record that was handed out but that nobody has worked on. In the event loop.

        Its partition is paused, for longer each time: see `UnseenReleases`. Returns False if it was decided before, or
        if its lock was lost.
        """
        book, lease = self._consumer._opened().book, lease_of(record.batch)
        return book.release_unseen(lease, [(record.offset, record.offset)]) > 0

    def set_delivery_limit(self, limit: int) -> None:
        """Tell it the group's delivery count limit, if that is known. Whoever does looks after last deliveries."""
        self._consumer._opened().book.set_limit(limit)

    async def restart_sessions(self) -> None:
        """Give all records that aren't settled back to the brokers: see `GroupMember`."""
        self._consumer._held()
        await self._consumer._member.restart_sessions()


class ShareConsumer(AsyncConsumer[RecordT_co]):
    """A consumer in a share group, for asyncio and trio: use it with `async with` and `async for`.

    Options are those of `kshare.ConsumerOptions`, and key_deserializer and value_deserializer. Kafka's own option names
    are understood too.
    """

    __module__ = "kshare"

    # The record type for each combination of deserializers. These are overloads of `__new__`, in a separate class:
    # editors show the docs of options only where `__init__` has no overloads, and mypy uses `__new__` only where
    # `__init__` is inherited. Async functions come first, because any function matches the others.
    # Where there is one deserializer, each number of arguments has an overload, so that mypy can infer lambdas.

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


def source_of(consumer: AsyncConsumer[Any]) -> ConsumerSource:
    return ConsumerSource(consumer)


def _reader(config: ConsumerConfig, reporter: Reporter) -> Reader | None:
    """None without deserializers: then records are read without the overhead of a reader."""
    if config.key_deserializer is None and config.value_deserializer is None:
        return None
    return Reader(config.key_deserializer, config.value_deserializer, config.on_poison, reporter)
