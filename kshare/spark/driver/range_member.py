"""The group member of a streaming query: acquires ranges, keeps them locked, and acknowledges as `Custody` decides.

All of it runs in one event loop. Decides how long a trigger waits for records; `Drain` decides when nothing is left.
Never decodes records; the tokens are all that it has of Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from functools import partial

import anyio
from anyio.abc import TaskGroup, TaskStatus

from kshare.admin.log_offsets import LATEST, log_offsets, partitions_of
from kshare.admin.routing import Router
from kshare.engine.events import Event, Fetched, Responded
from kshare.engine.member import GroupMember
from kshare.engine.notifier import Notifier
from kshare.engine.reached_cluster import reached
from kshare.engine.reporter import Reporter
from kshare.errors import KshareError, own_copy
from kshare.installation import warn_if_slow
from kshare.spark.driver.checkpoint_lock import CheckpointLock
from kshare.spark.driver.counters import QueryCounters
from kshare.spark.driver.custody import Custody
from kshare.spark.driver.decisions import Verdict
from kshare.spark.driver.drain import Drain
from kshare.spark.driver.driver_watch import DriverWatch
from kshare.spark.driver.group_position import GroupPosition
from kshare.spark.driver.lock_fit import LockFit
from kshare.spark.driver.mark_keeper import Known, MarkKeeper
from kshare.spark.driver.offset_sets import PartitionRange
from kshare.spark.driver.range_holdings import RangeHoldings
from kshare.spark.driver.row_decisions import RowRanges, serve_settlements, socket_folder
from kshare.spark.driver.stager import Stager
from kshare.spark.driver.topic_watch import TopicWatch
from kshare.spark.driver.verdict_log import VerdictLog, VerdictWriter
from kshare.spark.journal.opened_store import check_drained
from kshare.spark.lock_limit import lock_limit
from kshare.spark.options import ReadOptions
from kshare.spark.ranges import RecordRange, Token
from kshare.surroundings import wall_time

log = logging.getLogger("kshare.spark")

_REFRESH_S = 10.0
"""How often to request the group's offsets and lag, its limit on locks, and whether its topics exist."""
_DRIVER_LOOK_S = 1.0
_POLL_S = 0.2
_APPEND_S = 60.0


class RangeMember:
    """`run` it in a task. Other methods may be called once that has started."""

    def __init__(self, options: ReadOptions) -> None:
        self.counters = QueryCounters()
        self._options = options
        self._custody = Custody(options.settle, by_row=options.settle_rows, group=options.group)
        self._stager: Stager | None = None
        """With `settle=journal`."""
        self._lock_fit = LockFit()
        self._planned_at: float | None = None
        self._event_seen = Notifier()
        self._empty: set[int | None] = set()
        """Brokers whose last fetch returned nothing, since more records were requested."""
        self._drain: Drain | None = None
        """With AvailableNow."""
        self._closing = anyio.Event()
        self._member: GroupMember | None = None
        self._verdict_log: VerdictLog | None = None
        self._checkpoint_lock: CheckpointLock | None = None
        self._verdict_writer: VerdictWriter | None = None
        self._batch: int | None = None
        """The batch whose rows Spark is processing, and for which the user may decide single rows."""
        self._join: Callable[[str], GroupMember]
        self._tasks: TaskGroup
        self._driver = DriverWatch()
        self.close_reason: str | None = None
        """Why the member left the group, if `close` wasn't called by Spark."""

    # --- starting and ending

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Run until `close` is called, and then leave the group cleanly, within `close_timeout`."""
        warn_if_slow()
        config = self._options.consumer
        reporter = Reporter(self._observe, group=config.group)
        settings = config.member_settings()
        async with reached(settings.net) as cluster:
            self._can_renew = cluster.renews
            self._holdings = RangeHoldings(
                self._custody,
                lease_timers=cluster.lease_timers(),
                clock=anyio.current_time,
                reporter=reporter,
                release_delay=self._options.release_delay,
            )
            self._router = Router(cluster.pool, config.request_timeout)
            self._stager = self._holdings.stager = self._new_stager()
            self._topics = TopicWatch(
                self._router, self._options.topics, fails_on_loss=self._options.fail_on_data_loss
            )
            self._position = GroupPosition(
                self._router, self._options, self._custody, self._holdings, self._topics, self.counters
            )
            self._marks = MarkKeeper(
                self._router,
                config.group,
                self._options.topics,
                self._known,
                fails_on_loss=self._options.fail_on_lost_checkpoint,
            )
            async with anyio.create_task_group() as self._tasks:
                self._join = partial(GroupMember, settings, cluster.pool, self._holdings.book, self._tasks)
                task_status.started()
                self._tasks.start_soon(self._watch_driver)
                self._tasks.start_soon(self._refresh_periodically)
                self._tasks.start_soon(self._marks.run)
                if self._stager is not None:
                    self._tasks.start_soon(self._stager.run)
                if self._options.settle_rows:
                    self._tasks.start_soon(serve_settlements, config.group, self._settle_rows)
                    self._tasks.start_soon(self._release_delayed)
                with closing(reporter.log):
                    try:
                        await self._closing.wait()
                        with anyio.move_on_after(config.close_timeout, shield=True):
                            await self._leave()
                    finally:
                        if self._checkpoint_lock is not None:
                            self._checkpoint_lock.release()
                self._tasks.cancel_scope.cancel()

    async def _leave(self) -> None:
        if self._stager is not None:
            # If the journal can't be reached, what is being appended isn't accepted, and is released.
            with anyio.move_on_after(self._options.consumer.close_timeout / 3):
                await self._stager.stop()
        if self._member is not None:
            await self._member.close()
            await self._marks.stop()
        if self._stager is not None:
            await self._stager.close()

    def _new_stager(self) -> Stager | None:
        journal = self._options.journal
        if journal is None:
            return None
        # Appends are repeated for as long as an election may take. Meanwhile, the locks are renewed.
        router = Router(self._router.pool, _APPEND_S)
        return Stager(self._options, journal, self._custody, self._holdings.apply, router)

    async def _take_over(self, token: Token) -> None:
        """Before anything is done with the newest token in Spark's log, which another process may have made."""
        if self._checkpoint_lock is None:
            lock = CheckpointLock(socket_folder(), token.member)
            await lock.acquire(self._options.group)
            self._checkpoint_lock = lock
        if self._custody.has_begun:
            return
        if self._stager is not None:
            await self._stager.open(token)
        elif token.journal is not None:
            await check_drained(self._router, token.journal, int(wall_time() * 1000))
        self._custody.recall(await self._marks.take_over(token))
        for topic in await self._position.take_over(token):
            self._marks.forget_offset(topic)

    def _start_member(self, token: Token) -> None:
        """Join the group if necessary. The token has the query's member id."""
        if self._member is None:
            self._member = self._join(token.member)
            self._tasks.start_soon(self._member.run)
            if self._options.settle_rows or token.is_settled_by_row:
                self._verdict_log = VerdictLog(socket_folder(), token.member)
                self._verdict_writer = VerdictWriter(self._verdict_log)

    def close(self) -> None:
        self._closing.set()

    async def _watch_driver(self) -> None:
        while self.close_reason is None:
            await anyio.sleep(_DRIVER_LOOK_S)
            self.close_reason = self._driver.reason_to_stop()
        log.warning("%s: leaving the group", self.close_reason)
        self.close()

    # --- calls of Spark

    async def latest(self, start: Token, max_rows: int | None, *, is_certain: bool) -> Token | None:
        """Plan the next micro-batch; None if there are no records. This call means that `start` is complete.

        `is_certain`: whether Spark has passed `start`. Otherwise, the query may have another one.
        """
        await self._topics.start()
        self._topics.check()
        self._note_duration()
        is_restart = not self._custody.has_begun
        self._batch = None
        self._raise_failure()
        await self._take_over(start)
        if is_certain and not start.batch:
            await self._marks.check_new(start.member)
        self._start_member(start)
        verdicts = self._verdict_log.read(start.batch) if self._verdict_log and is_restart else None
        self._holdings.apply(self._custody.complete(start, verdicts))
        if self._stager is not None:
            self._stager.complete(start)
        if self._must_fit_in_lock:
            # Records that were fetched during the last batch have used up a part of their lock.
            self._holdings.apply(self._custody.release_fresh())
        limit = self._limit(max_rows)
        self._holdings.drop_expired()
        if self._drain is None:
            await self._wait_for_enough(limit)
        else:
            await self._wait_until_drained(limit)
        self._holdings.drop_expired()
        # If locks can't be renewed, nothing is left for the next batch: half of its lock would be used up by then.
        token = self._custody.plan(
            max(limit, self._custody.fresh) if self._must_fit_in_lock else limit, self._position.starts()
        )
        if token is not None:
            self.counters.planned(token)
            self._planned_at = anyio.current_time()
            if self._stager is not None:
                self._stager.note_usage()
                self._holdings.book.changed.send()
        if self._must_fit_in_lock or (token is not None and self._options.settle == "sink"):
            self._request_records(0)
        return token

    @property
    def _must_fit_in_lock(self) -> bool:
        """Whether micro-batches have to end before the locks of their records expire."""
        return not self._can_renew and self._options.settle == "sink"

    async def read(self, start: Token, end: Token, *, is_logged: bool) -> tuple[RecordRange, ...]:
        """Return the ranges of this micro-batch, which Spark is about to read."""
        is_replay = not self._custody.has_begun
        if start != end:
            await self._take_over(end)
            if not start.batch:
                await self._marks.check_new(end.member)
        ranges, decisions = self._custody.read(start, end, is_logged=is_logged)
        if not self._custody.has_begun:
            # Acquire nothing until it is known whether this batch is complete: records would be mistaken for new ones.
            return ()
        if start != end:
            await self._marks.begin(end.batch)
        self._holdings.apply(decisions)
        if self._stager is not None:
            self._stager.wake()
        self._start_member(end)
        if start != end:
            self._batch = end.batch
            if self._verdict_writer and end.is_settled_by_row:
                await self._verdict_writer.begin(end.batch)
        if (is_replay and ranges) or decisions:
            # On a replay, the records that are read again should be locked. Otherwise the checkpoint now owns this
            # batch, and the next one can be fetched.
            self._request_records(self._limit(None))
        return ranges

    def latest_known_token(self) -> Token | None:
        """The newest token that Spark may know of."""
        return self._custody.resume()

    async def prepare_to_drain(self) -> None:
        """From now on, emit only what is in the topics at this moment."""
        await self._topics.start()
        where = await partitions_of(self._router, dict.fromkeys(self._options.topics))
        ends = await log_offsets(self._router, where, LATEST)
        self._custody.limit_to(ends)
        self._drain = Drain(self._options, self._custody, self._holdings, self._position, ends)

    def progress(self) -> dict[str, float | None]:
        """The metrics that Spark shows in the query's progress."""
        custody = self._custody
        return {
            "held": self._holdings.held,
            "lockUse": self.counters.lock_use(self._holdings.held),
            "fresh": custody.fresh,
            "inFlight": custody.in_flight,
            "owed": custody.owed,
            "delayed": self._holdings.delayed.total,
            "skippedDuplicates": custody.skipped,
            **({} if self._stager is None else self._stager.readings()),
            **self.counters.readings(),
        }

    async def _settle_rows(self, verdict: Verdict | None, rows: RowRanges) -> int:
        """Note the user's decision for these rows, if there is one. Returns how many of the rows are in flight."""
        if self._batch is None:
            return 0
        ids = {name: topic_id for topic_id, name in self._custody.names.items()}
        count = 0
        for topic, partitions in rows.items():
            for number, row_ranges in partitions.items():
                for first, last in row_ranges if topic in ids else ():
                    count += self._custody.settle_rows(
                        PartitionRange((ids[topic], int(number)), first, last), verdict
                    )
        if verdict is not None and count and self._verdict_writer:
            await self._verdict_writer.write(self._batch, self._custody.verdicts)
        return count

    async def _release_delayed(self) -> None:
        while True:
            await anyio.sleep(_POLL_S)
            self._holdings.release_due()

    # --- waiting for records

    async def _wait_for_enough(self, limit: int) -> None:
        """Wait until there are enough records, or some and the brokers have no more, or the time is up."""
        self._request_records(limit)
        with self._holdings.trigger_waiting(), anyio.move_on_after(self._options.max_wait):
            while not self._has_enough(limit) and not (self._custody.fresh and self._are_brokers_empty()):
                await self._wait_for_event()

    async def _wait_until_drained(self, limit: int) -> None:
        """Wait until there are records to emit, or none are left and all acknowledgements are confirmed."""
        assert self._drain is not None
        self._request_records(limit)
        quiet_since = anyio.current_time()
        seen = self.counters.acquired
        with self._holdings.book.commits.confirming():
            while not self._has_enough(limit):
                with anyio.move_on_after(_POLL_S):
                    await self._wait_for_event()
                quiet = anyio.current_time() - quiet_since
                if self.counters.acquired != seen:
                    seen, quiet_since = self.counters.acquired, anyio.current_time()
                    continue
                is_quiet = self._are_brokers_empty() or quiet > _POLL_S
                if is_quiet and (self._custody.fresh or await self._drain.is_complete(quiet, self._member)):
                    return

    def _has_enough(self, limit: int) -> bool:
        """Whether nothing more would be acquired: there are as many as wanted, or as the journal may have."""
        fresh = self._custody.fresh
        return fresh >= limit or (fresh > 0 and self._stager is not None and self._stager.is_full)

    def _limit(self, max_rows: int | None) -> int:
        limits = [self._options.max_records]
        if max_rows is not None:
            limits.append(max_rows)
        if self._must_fit_in_lock:
            limits.append(self._lock_fit.bound)
        return max(1, min(limits))

    def _note_duration(self) -> None:
        if self._planned_at is not None and self._holdings.lock_s:
            elapsed = anyio.current_time() - self._planned_at
            self._lock_fit.on_batch(self._custody.in_flight, elapsed, self._holdings.lock_s)
        self._planned_at = None

    def _request_records(self, records: int) -> None:
        self._empty.clear()
        if self._custody.is_journaling and self._stager is not None:
            records = self._stager.max_records
        self._holdings.want(records)

    def _are_brokers_empty(self) -> bool:
        return self._member is not None and len(self._empty) >= self._member.brokers > 0

    async def _wait_for_event(self) -> None:
        self._raise_failure()
        self._topics.check()
        await self._event_seen.wait()

    def _raise_failure(self) -> None:
        """Raise the error that ended the member or the journal."""
        for part in (self._member, self._stager):
            if part is not None and part.failure is not None:
                raise own_copy(part.failure)

    def _observe(self, event: Event) -> None:
        self.counters.observe(event)
        if isinstance(event, Responded) and event.api == "ShareFetch":
            self._empty.add(event.node)
        elif isinstance(event, Fetched):
            self._empty.discard(event.node)
        self._event_seen.send()

    # --- what changes while the query runs

    async def _refresh_periodically(self) -> None:
        while True:
            await anyio.sleep(_REFRESH_S)
            await self._position.refresh()
            await self._refresh_lock_limit()
            await self._refresh_topics()

    async def _refresh_lock_limit(self) -> None:
        try:
            limit = await lock_limit(self._router, self._options.group)
        except KshareError as error:
            log.info("the group's limit on locks is unknown: %s", error)
        else:
            self.counters.lock_limit = limit.locks if limit else None

    async def _refresh_topics(self) -> None:
        try:
            await self._topics.refresh()
        except KshareError as error:
            log.info("it is unknown whether the topics exist: %s", error)

    # --- the query's mark

    def _known(self) -> Known | None:
        mark, token = self._custody.mark, self._custody.resume()
        if mark is None or token is None:
            return None
        return Known(token.member, mark, self._position.offsets())
