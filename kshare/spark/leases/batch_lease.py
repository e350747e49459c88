"""Batch consumption: records are acquired in the user's process and held while DataFrames read them.

    with kshare.spark.lease(spark, options, max_records=50_000) as lease:
        orders = lease.dataframe()
        orders.write.parquet(...)

    the block                       | the records
    --------------------------------+---------------------------------------------------------------------
    is entered                      | acquired, up to `max_records`; their bytes are dropped at once
    lasts                           | renewed, however long it takes (brokers from Kafka 4.2 on)
    ends                            | accepted; LeaseLostError if some couldn't be
    ends with an exception          | released: they will be redelivered
    and the process is killed       | released by the broker, at the latest when their locks expire

During the block, a member of the group runs in an event loop in a thread. Executors read the records themselves with
plain Fetch requests, each time a DataFrame is computed. Decides when to stop acquiring; `kshare.client` decides when to
renew.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self
from uuid import UUID

import anyio
from anyio.abc import TaskStatus
from anyio.from_thread import start_blocking_portal

from kshare.client.consumer import ShareConsumer
from kshare.client.record import ShareBatch, lease_of, spans_of
from kshare.engine.events import Acknowledged, Event
from kshare.engine.events import LeaseLost as LostEvent
from kshare.errors import ConfigError, KshareError
from kshare.spark.executor.connections import Connections, connections
from kshare.spark.existence import topic_ids
from kshare.spark.leases.lease_token import LeaseEnded, LeaseToken
from kshare.spark.lock_limit import lock_limit, shortage
from kshare.spark.options import LARGEST_BATCH, ReadOptions
from kshare.spark.ranges import RecordRange
from kshare.state.lease import ACCEPT
from kshare.state.lease import Lease as Locks
from kshare.wording import shell_word

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("kshare.spark")

_LULL_S = 1.0
"""Acquiring ends if no more records have arrived for this long."""
_LONGEST_S = 86_400.0
_MOST = 1_000_000
"""The largest `max_records` of a consumer. The brokers' limit on locks is usually lower."""


class LeaseLostError(KshareError):
    """Some records weren't accepted, or it isn't known whether they were: they are redelivered, or may be."""


class BatchLease:
    """Leased records of a share group, created by `kshare.spark.lease`. Valid inside its `with` block."""

    def __init__(
        self, spark: SparkSession, options: Mapping[str, str], *, max_records: int, max_wait: float
    ) -> None:
        if type(max_records) is not int or not 1 <= max_records <= LARGEST_BATCH:
            raise ConfigError(
                f"max_records must be a whole number from 1 to {LARGEST_BATCH}, not {max_records!r}"
            )
        self._spark = spark
        self._given = {name: str(value) for name, value in options.items()}
        self._options = ReadOptions.parse(self._given, is_streaming=False)
        self._max_records = max_records
        self._max_wait = max_wait
        self._lost = 0
        """Records whose locks were lost before the end of the block."""
        self._is_done = False
        self._refused = 0
        """Records whose acceptance a broker has refused."""
        self._open = 0
        """Records whose acceptance no broker has responded to."""
        self._reason: KshareError | None = None
        """Why, for the first of them."""
        self._exit_stack: ExitStack | None = None
        self.ranges: tuple[RecordRange, ...] = ()
        """The acquired ranges."""

    @property
    def count(self) -> int:
        """How many offsets were acquired. Less than `max_records` if the group locks or has fewer.

        Some may have no record, because of compaction or transactions.
        """
        return sum(map(len, self.ranges))

    @property
    def token(self) -> str:
        """For `spark.read.format("kshare").option("lease", lease.token)`. Contains the options, including passwords."""
        self._check()
        return LeaseToken(self._given, self._member_id, self.ranges).encode()

    def dataframe(self) -> DataFrame:
        """A DataFrame of the records. Each computation reads the same records again."""
        token = self.token
        return self._spark.read.format("kshare").option("lease", token).load()

    def __enter__(self) -> Self:
        """Acquire records. Returns with `max_records`, when no more arrive, or after `max_wait` if there are none."""
        shared = connections(self._options.net_settings())
        shared.submit(topic_ids, shared.router, self._options.topics).result()
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal("asyncio", name="kshare lease"))
            self._ended = self._portal.call(anyio.Event)
            self._holding, _ = self._portal.start_task(self._hold)
            self._exit_stack = stack.pop_all()
        self._warn_if_short(shared)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Accept the records if the block ended without an exception; otherwise release them."""
        life, self._exit_stack = self._exit_stack, None
        assert life is not None, "entered before"
        with life:
            self._is_done = error is None
            self._portal.call(self._ended.set)
            self._holding.result()
        if error is None and (self._lost or self._refused or self._open):
            raise LeaseLostError(self._loss())

    def _warn_if_short(self, shared: Connections) -> None:
        """Say why there are fewer records than requested, if the group's limit on locks is the reason."""
        if self.count >= self._max_records:
            return
        try:
            limit = shared.submit(lock_limit, shared.router, self._options.group).result()
        except KshareError as error:
            log.info("the group's limit on locks is unknown: %s", error)
            return
        reason = limit and shortage(self.ranges, self._max_records, self._options.group, limit)
        if reason:
            log.warning("%s", reason)

    def _check(self) -> None:
        if self._exit_stack is None:
            raise LeaseEnded("the lease has ended: use it, and all DataFrames of it, within its `with` block")
        if self._lost:
            raise LeaseLostError(self._loss())

    def _loss(self) -> str:
        reasons = []
        if self._lost:
            reasons.append(
                f"{self._lost} of {self.count} leased records are lost: their locks expired, or a connection broke. "
                "They will be redelivered, and processed twice"
            )
        if self._refused:
            reasons.append(
                f"{self._refused} of {self.count} leased records couldn't be accepted, and will be redelivered: "
                f"{self._reason}"
            )
        if self._open:
            reasons.append(
                f"{self._open} of {self.count} leased records may or may not have been accepted, because no response "
                f"arrived ({self._reason}). Only those that weren't are redelivered: "
                f"`kshare groups describe {shell_word(self._options.group)}` shows how many the group hasn't settled"
            )
        return ". ".join(reasons)

    # --- in the loop's thread

    async def _hold(self, *, task_status: TaskStatus[None]) -> None:
        """Hold the records from acquiring them to the end. Those that aren't accepted by then are released."""
        config = self._options.consumer
        consumer: ShareConsumer = ShareConsumer(
            config.bootstrap_servers,
            group=config.group,
            topics=config.topics,
            acknowledgement="explicit",
            max_records=min(self._max_records, _MOST),
            max_lease_seconds=_LONGEST_S,
            observer=self._on_event,
            client_id=config.client_id,
            rack=config.rack,
            request_timeout=config.request_timeout,
            close_timeout=config.close_timeout,
            **config.connection,
        )
        async with consumer:
            locks = await self._acquire(consumer)
            self._member_id = consumer.member_id
            task_status.started()
            await self._ended.wait()
            if self._is_done:
                held = sum(lock.decide_held(ACCEPT) for lock in locks)
                self._lost = self.count - held

    async def _acquire(self, consumer: ShareConsumer) -> list[Locks]:
        """Acquire records. Keeps their locks but not the records, which the executors read themselves."""
        ranges: list[RecordRange] = []
        locks: list[Locks] = []
        batches = consumer.batches()
        patience = self._max_wait
        remaining = self._max_records
        while remaining > 0:
            with anyio.move_on_after(patience) as waiting:
                batch = await anext(batches)
            if waiting.cancelled_caught:
                break
            patience = min(_LULL_S, self._max_wait)
            ranges += _ranges(batch)
            remaining -= len(batch)
            locks.append(lease_of(batch))
        consumer.pause(release=True)
        self.ranges = tuple(sorted(ranges))
        return locks

    def _on_event(self, event: Event) -> None:
        if isinstance(event, LostEvent):
            # After the block, all were decided: what has become of their acceptance is what counts.
            self._lost += 0 if self._is_done else event.records
        elif isinstance(event, Acknowledged) and self._is_done and event.error is not None:
            accepted = event.counts().get("accept", 0)
            self._open += accepted if event.is_open else 0
            self._refused += 0 if event.is_open else accepted
            self._reason = self._reason or event.error


def lease(
    spark: SparkSession,
    options: Mapping[str, str],
    *,
    max_records: int = 100_000,
    max_wait: float = 10.0,
) -> BatchLease:
    """Lease about `max_records` records of a share group, for a `with` block.

    `options` are those of `spark.read.format("kshare")`. `max_wait` is how many seconds to wait for the first record.
    """
    return BatchLease(spark, options, max_records=max_records, max_wait=max_wait)


def _ranges(batch: ShareBatch) -> list[RecordRange]:
    topic_id, partition = lease_of(batch).partition
    return [
        RecordRange(batch.topic, str(UUID(bytes=topic_id)), partition, first, last, batch.delivery_count)
        for first, last in spans_of(batch)
    ]
