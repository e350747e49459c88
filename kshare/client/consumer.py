"""The share consumer: what users hold. Owns every task of its own; hands out records, takes decisions.

    async with ShareConsumer("localhost:9092", group="orders", topics=["orders"]) as consumer:
        async for record in consumer:
            await ship(record.value)

Implicit acknowledgement: a record is accepted when the loop comes back for the next one. However the loop ends (break,
return, an exception, cancellation), the record at hand is not accepted: closing releases it, and it comes again.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import closing
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar, Unpack, cast, overload

import anyio
from anyio.lowlevel import checkpoint

from kshare.client.background import Background
from kshare.client.config import ConsumerConfig, check_max_records, topic_names
from kshare.client.deserialize import KeyT, Reader, ReadRecord, RecordT_co, TypedBatch, ValueT
from kshare.client.group import GroupMember
from kshare.client.holdings import Holdings
from kshare.client.observer import Reporter
from kshare.client.record import ShareBatch, ShareRecord, lease_of
from kshare.client.streams import BatchStream, RecordStream, Shelf
from kshare.errors import ConsumerClosed, KshareError, RequestTimedOut
from kshare.installation import warn_if_slow
from kshare.net.clock import loop_clock
from kshare.net.pool import Pool
from kshare.net.share_groups import require_share_groups
from kshare.protocol.messages import ShareAcknowledgeRequest
from kshare.state.leases import LeaseKeeper

if TYPE_CHECKING:
    from kshare.client.options import AnyOptions, BytesOptions, KeyAndValueOptions, KeyOptions, ValueOptions

log = logging.getLogger("kshare.client")

TakenT = TypeVar("TakenT")
TopicPartition = tuple[str, int]
Servers = str | Iterable[str] | None
_RENEWING_VERSION = 2
_STRETCH_S = 0.005


class AsyncConsumer(Generic[RecordT_co]):
    """What `ShareConsumer` does."""

    def __init__(self, bootstrap_servers: Servers = None, **options: Unpack[AnyOptions]) -> None:
        self.config = ConsumerConfig.make(bootstrap_servers, options)
        self._settings = self.config.net_settings()
        self._reporter = Reporter(self.config.observer, self.config.on_settled, group=self.config.group)
        self._holdings: Holdings | None = None
        self._shelf = Shelf(self._offer)
        self._queue: list[object] = []
        """Those who wait for records, in the order they came."""
        self._background: Background | None = None
        self._thread = 0
        """In which the event loop runs."""

    async def __aenter__(self) -> Self:
        """Reaches a broker, or says why it can't; joining the group goes on in the background."""
        if self._background is not None and not self._background.is_over:
            raise KshareError("the consumer is open already: make one for each `async with`")
        warn_if_slow()
        self._background = Background(self._live, self._on_end)
        await self._background.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except Exception as problem:
            if error is None:
                raise
            # What ended the block is what the user has to know first.
            log.error("closing the consumer failed: %s", problem, exc_info=problem)

    async def close(self) -> None:
        """Settles in bounded time: what was acknowledged is sent, the rest released, the group left.

        At the end of `async with` it is called for you. Any task may call it, at any time, and again: all calls return
        when the consumer is closed. Tasks that wait for records, or will, get ConsumerClosed.
        """
        background = self._background
        if background is None:
            return
        background.stop()
        self._shelf.clear()
        if self._holdings is not None:
            self._holdings.arrived.send()
        await background.join()

    async def _live(self, on_started: Callable[[], None], stopping: anyio.Event) -> None:
        """All that goes on in the background.

        Cancelling the user's code doesn't reach it: what was acknowledged is still to be sent, the group to be left.
        """
        with closing(self._reporter.log):
            async with Pool(self._settings) as pool:
                connection = await pool.get_in()
                require_share_groups(connection)
                speaks_renewal = connection.version_for(ShareAcknowledgeRequest) >= _RENEWING_VERSION
                keeper = LeaseKeeper(
                    can_renew=self.config.renew_leases and speaks_renewal,
                    longest_s=self.config.max_lease_seconds,
                )
                holdings = Holdings(
                    most=self.config.max_records,
                    most_bytes=self.config.max_bytes,
                    keeper=keeper,
                    clock=loop_clock(),
                    reader=_reader(self.config, self._reporter),
                    can_renew=speaks_renewal,
                    reporter=self._reporter,
                )
                holdings.release_unattended = self._shelf.release_unattended
                async with anyio.create_task_group() as tasks:
                    self._member = GroupMember(self.config, pool, holdings, tasks, self._reporter)
                    self._holdings = holdings
                    self._thread = get_ident()
                    tasks.start_soon(self._member.run)
                    on_started()
                    await stopping.wait()
                    with anyio.move_on_after(self.config.close_timeout) as limit:
                        await self._member.close()
                    if limit.cancelled_caught:
                        log.warning(
                            "group %s: not everything was settled within close_timeout (%g s); it is delivered again",
                            self.config.group,
                            self.config.close_timeout,
                        )
                    tasks.cancel_scope.cancel()

    def _on_end(self) -> None:
        """Whoever still waits has nothing to wait for."""
        if self._holdings is not None:
            self._holdings.arrived.send()
            self._holdings.changed.send()

    def __aiter__(self) -> AsyncIterator[RecordT_co]:
        """Record by record.

        Any number of tasks may loop over one consumer, each with an `async for` of its own: they share what is there.
        """
        self._held()
        stream = RecordStream(source_of(self), self._shelf, is_implicit=self.config.is_implicit)
        return cast("AsyncIterator[RecordT_co]", stream)

    def batches(self) -> AsyncIterator[TypedBatch[RecordT_co]]:
        """Batch by batch: records of one partition that were acquired together."""
        self._held()
        stream = BatchStream(source_of(self), self._shelf, is_implicit=self.config.is_implicit)
        return cast("AsyncIterator[TypedBatch[RecordT_co]]", stream)

    async def commit(self) -> dict[TopicPartition, KshareError | None]:
        """Wait until what was acknowledged before this call is confirmed or refused; says which, by partition.

        What became known since the last commit is told, too: other outcomes, and records in your hands whose lock was
        lost. Raises RequestTimedOut when the brokers don't answer within `request_timeout`.
        """
        holdings = self._held()
        is_clear = False
        with holdings.confirmation(self._member.leases) as confirmation:
            self._member.speak()
            with anyio.move_on_after(self.config.request_timeout):
                while not confirmation.is_clear:
                    if self._member.failure:
                        raise self._member.failure
                    self._require_background()
                    await holdings.changed.wait()
                is_clear = True
            if not is_clear:
                raise RequestTimedOut(
                    "acknowledgements weren't confirmed in time; what became of them is open"
                )
        return confirmation.all_results(holdings.place_of)

    @property
    def member_id(self) -> str:
        """What the group calls this member, once the consumer is open."""
        self._opened()
        return self._member.member_id

    @property
    def topics(self) -> tuple[str, ...]:
        """What is subscribed to now."""
        return self._member.topics if self._holdings else self.config.topics

    def subscribe(self, topics: Iterable[str]) -> None:
        """Want these topics from now on, and no others.

        Returns at once; the group is told in the background. Records in your hands are yours to settle, whatever their
        topic; those of a topic left out that are still on their way to you are given back.
        """
        holdings = self._held()
        self._member.subscribe(topic_names(topics))
        holdings.keep_only(self._member.topics)

    def stop_acquiring(self) -> None:
        """Ask for no more records: those in your hands are yours to settle, and are renewed as before."""
        self._held().stop_acquiring()

    @property
    def can_renew(self) -> bool:
        """Whether locks are renewed: brokers can since Kafka 4.2, and `renew_leases` may be off."""
        return self._opened().keeper.can_renew

    def set_max_records(self, records: int) -> None:
        """Hold at most so many records from now on, instead of `max_records`. What is held already stays."""
        check_max_records(records)
        holdings = self._held()
        holdings.pace.most = records
        holdings.changed.send()

    def _stretch(self) -> int:
        """How many records may go by before everything else has to run again; what has expired by now is lost."""
        holdings = self._held()
        holdings.look_after_leases()
        return holdings.pace.within(_STRETCH_S)

    async def next_batch(self) -> TypedBatch[RecordT_co]:
        """Records of one partition that were acquired together; what `batches` gives, without accepting anything."""
        return cast("TypedBatch[RecordT_co]", await self._in_turn(self._take_batch))

    async def _open_batch(self) -> None:
        """Until there are records on the shelf that all record loops take from."""
        await self._in_turn(self._has_opened)

    def _take_batch(self, holdings: Holdings) -> ShareBatch | None:
        rest = self._shelf.next_rest()
        return holdings.next_batch() if rest is None else rest

    def _has_opened(self, holdings: Holdings) -> bool | None:
        if not self._shelf.has_opened:
            batch = holdings.next_batch()
            if batch is None:
                return None
            self._shelf.put(batch)
        return True

    async def _in_turn(self, take: Callable[[Holdings], TakenT | None]) -> TakenT:
        """What `take` finds; who has waited longest takes first."""
        holdings = self._held()
        await checkpoint()
        place = object()
        self._queue.append(place)
        try:
            while True:
                self._held()
                taken = self._take(take) if self._queue[0] is place else None
                if taken is not None:
                    return taken
                await self._arrival(holdings)
        finally:
            self._queue.remove(place)
            if self._queue:
                holdings.arrived.send()

    def _take(self, take: Callable[[Holdings], TakenT | None]) -> TakenT | None:
        """What has expired meanwhile isn't there any more: whoever ran before us may have blocked the loop."""
        holdings = self._held()
        self._shelf.give_back()
        holdings.look_after_leases()
        return take(holdings)

    def _on_too_late(self, batch: ShareBatch, lost: list[tuple[int, int]]) -> None:
        """A loop would have accepted these, but their lock is lost: told by `on_settled` and `commit`."""
        self._opened().on_too_late(lease_of(batch), lost)

    def _offer(self) -> None:
        """Something is on the shelf. A loop may be collected in any thread; then whoever asks next finds it."""
        if self._holdings is not None and self._holdings.askers and self._thread == get_ident():
            self._holdings.arrived.send()

    async def _arrival(self, holdings: Holdings) -> None:
        if self._member.failure:
            raise self._member.failure
        await holdings.wait_for_arrival(self._member.speak)

    def _held(self) -> Holdings:
        holdings = self._opened()
        self._require_background(is_to_stay=True)
        return holdings

    def _opened(self) -> Holdings:
        if self._holdings is None:
            raise KshareError("the consumer isn't open: write `async with ShareConsumer(...) as consumer:`")
        return self._holdings

    def _require_background(self, *, is_to_stay: bool = False) -> None:
        background = self._background
        if background is None or background.is_over or (is_to_stay and background.is_stopping):
            raise ConsumerClosed(
                f"the consumer of group {self.config.group!r} was closed: what it held is released; "
                "open another one to go on"
            )


class ShareConsumer(AsyncConsumer[RecordT_co]):
    """A member of a share group. Options are listed in docs/consumer.md; Kafka's dotted names are understood."""

    # Which deserializers make which records. Overloads of `__new__`, and in a class of its own, because editors show
    # the docs of options only where `__init__` has no overloads, and mypy goes by `__new__` only where `__init__` is
    # inherited.

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


class ConsumerSource(NamedTuple):
    """What loops over a consumer use of it beside its public surface: see `streams.Source`."""

    next_batch: Callable[[], Coroutine[Any, Any, ShareBatch]]
    open_batch: Callable[[], Coroutine[Any, Any, None]]
    stretch: Callable[[], int]
    on_too_late: Callable[[ShareBatch, list[tuple[int, int]]], None]


def source_of(consumer: AsyncConsumer[Any]) -> ConsumerSource:
    """For the loops of this consumer, and for `kshare.sync`."""
    return ConsumerSource(consumer.next_batch, consumer._open_batch, consumer._stretch, consumer._on_too_late)


def _reader(config: ConsumerConfig, reporter: Reporter) -> Reader | None:
    """None where bytes are wanted: then nothing stands between batches and records."""
    if config.key_deserializer is None and config.value_deserializer is None:
        return None
    return Reader(config.key_deserializer, config.value_deserializer, config.on_poison, reporter)
