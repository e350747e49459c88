"""The share consumer: what users hold. Owns every task of its own; hands out records, takes decisions.

    async with ShareConsumer("localhost:9092", group="orders", topics=["orders"]) as consumer:
        async for record in consumer:
            await ship(record.value)

Implicit acknowledgement: a record is accepted when the loop comes back for the next one. However the loop ends (break,
return, an exception, cancellation), the record at hand is not accepted: closing releases it, and it comes again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import closing
from types import TracebackType
from typing import Any, Generic, Self, cast, overload

import anyio
from anyio.abc import TaskGroup, TaskStatus
from anyio.lowlevel import checkpoint

from kshare.client.config import ConsumerConfig, topic_names
from kshare.client.deserialize import KeyT, Reader, ReadRecord, RecordT_co, ValueT
from kshare.client.group import GroupMember
from kshare.client.holdings import Holdings
from kshare.client.observer import Reporter
from kshare.client.record import ShareBatch, ShareRecord
from kshare.client.streams import BatchStream, RecordStream, Shelf
from kshare.errors import KshareError, RequestTimedOut
from kshare.installation import warn_if_slow
from kshare.net.clock import loop_clock
from kshare.net.pool import Pool
from kshare.net.share_groups import require_share_groups
from kshare.protocol.messages import ShareAcknowledgeRequest
from kshare.state.leases import LeaseKeeper

TopicPartition = tuple[str, int]
Servers = str | Iterable[str] | None
_RENEWING_VERSION = 2
_STRETCH_S = 0.005


class ShareConsumer(Generic[RecordT_co]):
    """Options are those of `ConsumerConfig`; Kafka's dotted names are understood."""

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
        self.config = ConsumerConfig.make(bootstrap_servers, options)
        self._settings = self.config.net_settings()
        self._reporter = Reporter(self.config.observer, self.config.on_settled, group=self.config.group)
        self._holdings: Holdings | None = None
        self._shelf = Shelf()

    async def __aenter__(self) -> Self:
        """Reaches a broker, or says why it can't; joining the group goes on in the background."""
        warn_if_slow()
        self._tasks: TaskGroup = await anyio.create_task_group().__aenter__()
        try:
            await self._tasks.start(self._live)
        except BaseException as error:
            await self._leave(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Settles in bounded time: what was acknowledged is sent, the rest released, the group left."""
        with anyio.move_on_after(self.config.close_timeout, shield=True):
            await self._member.close()
        self._life.cancel()
        return await self._leave(kind, error, trace)

    async def _live(self, *, task_status: TaskStatus[None]) -> None:
        """All that goes on in the background, until `_life` is cancelled.

        Cancelling the user's code doesn't reach it: what was acknowledged is still to be sent, the group to be left.
        """
        with closing(self._reporter.log), anyio.CancelScope() as self._life:
            async with Pool(self._settings) as pool:
                connection = await pool.get_in()
                require_share_groups(connection)
                speaks_renewal = connection.version_for(ShareAcknowledgeRequest) >= _RENEWING_VERSION
                keeper = LeaseKeeper(
                    can_renew=self.config.renew_leases and speaks_renewal, longest_s=self.config.longest_lease
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
                async with anyio.create_task_group() as tasks:
                    self._member = GroupMember(self.config, pool, holdings, tasks, self._reporter)
                    self._holdings = holdings
                    self._life.shield = True
                    tasks.start_soon(self._member.run)
                    task_status.started()

    async def _leave(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if error is None or isinstance(error, Exception):
            # Without the error, so that it goes on as it is and not as part of a group.
            await self._tasks.__aexit__(None, None, None)
            return None
        return await self._tasks.__aexit__(kind, error, trace)

    def __aiter__(self) -> AsyncIterator[RecordT_co]:
        """Record by record."""
        self._held()
        stream = RecordStream(self, self._shelf, is_implicit=self.is_implicit)
        return cast("AsyncIterator[RecordT_co]", stream)

    def batches(self) -> BatchStream:
        """Batch by batch: records of one partition that were acquired together."""
        self._held()
        return BatchStream(self, self._shelf, is_implicit=self.is_implicit)

    async def commit(self) -> dict[TopicPartition, KshareError | None]:
        """Wait until everything acknowledged so far is confirmed or refused; says which, by partition, since last time.

        Raises RequestTimedOut when the brokers don't answer within `request_timeout`.
        """
        holdings = self._held()
        holdings.committers += 1
        holdings.has_committed = True
        is_clear = False
        try:
            self._member.speak()
            with anyio.move_on_after(self.config.request_timeout):
                while not self._member.is_clear:
                    if self._member.failure:
                        raise self._member.failure
                    await holdings.listen().wait()
                is_clear = True
            if not is_clear:
                raise RequestTimedOut(
                    "acknowledgements weren't confirmed in time; what became of them is open"
                )
        finally:
            holdings.committers -= 1
        results, holdings.results = holdings.results, {}
        return {
            (self._member.name_of(topic_id) or topic_id.hex(), number): error
            for (topic_id, number), error in results.items()
        }

    @property
    def member_id(self) -> str:
        """What the group calls this member, once the consumer is open."""
        self._held()
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
        return self._held().keeper.can_renew

    def hold_at_most(self, records: int) -> None:
        """So many from now on, instead of `max_records`. What is held stays."""
        holdings = self._held()
        holdings.pace.most = records
        holdings.tell()

    def stretch(self) -> int:
        """How many records may go by before everything else has to run again."""
        return self._held().pace.within(_STRETCH_S)

    async def next_batch(self) -> ShareBatch:
        """Records of one partition that were acquired together; what `batches` gives, without accepting anything."""
        holdings = self._held()
        await checkpoint()
        while True:
            batch = holdings.next_batch()
            if batch:
                return batch
            if self._member.failure:
                raise self._member.failure
            await self._arrival(holdings)

    async def _arrival(self, holdings: Holdings) -> None:
        if holdings.arrived.is_set():
            holdings.arrived = anyio.Event()
        holdings.askers += 1
        try:
            self._member.speak()
            await holdings.arrived.wait()
        finally:
            holdings.askers -= 1

    @property
    def is_implicit(self) -> bool:
        return self.config.acknowledgement == "implicit"

    def _held(self) -> Holdings:
        if self._holdings is None:
            raise KshareError("the consumer isn't open: write `async with ShareConsumer(...) as consumer:`")
        return self._holdings


def _reader(config: ConsumerConfig, reporter: Reporter) -> Reader | None:
    """None where bytes are wanted: then nothing stands between batches and records."""
    if config.key_deserializer is None and config.value_deserializer is None:
        return None
    return Reader(config.key_deserializer, config.value_deserializer, config.on_poison, reporter)
