"""Keeps the mark of a query where it outlives the checkpoint, and refuses checkpoints that are older than it, or empty.

    the checkpoint            | marks                              | result
    --------------------------+------------------------------------+---------------------------------------------------
    has micro-batches         | none, or not newer                 | the mark says what was accepted meanwhile
    is older than the mark    | its own                            | LostCheckpoint: it was restored from a copy
    has no micro-batch        | another query of the group has     | LostCheckpoint: that one's checkpoint may be lost
                              | one, and isn't running             |
    is a temporary one        | any                                | nothing is checked or stored: the query starts over
                              |                                    | each time, as users of such sinks want

The mark is stored before Spark reads a micro-batch, so that no sink knows a number that isn't in it; and again every
few seconds while the query runs, which shows other queries that it does (see `other_queries`).

The mark is a text in a consumer group of the query's own, `<group>.kshare-spark.<member id>`, which has no members.
That needs no topic, takes one request, and is deleted by brokers a week after the query was stopped. Users need Read on
that group; without it, nothing is recognized, and a warning says so.

Sinks that remember micro-batches by number (files, Delta) skip those that they know. Their rows would be accepted, and
be in no output.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import anyio

from kshare.admin.committed_texts import commit_texts, committed_texts
from kshare.admin.results import TopicPartition
from kshare.admin.routing import Router
from kshare.errors import KshareError, NotAuthorized
from kshare.spark.driver.other_queries import abandoned_queries, newest_mark
from kshare.spark.driver.query_mark import QueryMark, mark_group
from kshare.spark.driver.waiting_queries import has_temporary_checkpoint
from kshare.spark.ranges import NEW_CHECKPOINT, Token
from kshare.surroundings import wall_time

log = logging.getLogger("kshare.spark")

BEAT_S = 5.0
"""How often to store a mark that doesn't change. As often as consumers of Kafka commit their offsets by default."""
_CHANGES_S = 1.0
"""How often to store a mark that changes."""
_BEGIN_S = 10.0
"""For how long a micro-batch may be delayed because its mark can't be stored."""
_PARTITION = 0
"""Of each topic of the query: all of them have the mark, since the query may read others later."""


class LostCheckpoint(KshareError):
    """The checkpoint isn't the newest one of the query, or was lost: rows would be accepted and be in no output."""


class Known(NamedTuple):
    """What there is to store."""

    member: str
    mark: QueryMark
    offsets: Mapping[TopicPartition, int]
    """Where the query is, for those who watch consumer groups."""


class MarkKeeper:
    """The mark of one query. `fails_on_loss`: whether to refuse, or to go on with a warning.

    `known` returns what there is to store now, or None before Spark has passed the query's position.
    """

    def __init__(
        self,
        router: Router,
        group: str,
        topics: tuple[str, ...],
        known: Callable[[], Known | None],
        *,
        fails_on_loss: bool,
    ) -> None:
        self._router = router
        self._group = group
        self._topics = topics
        self._known = known
        self._fails_on_loss = fails_on_loss
        self._is_kept = True
        self._is_checked = False
        self._offsets: dict[TopicPartition, int] = {}
        """What the process before this one has stored."""
        self._storing = anyio.Lock()
        """An older mark mustn't overtake a newer one."""
        self._written: QueryMark | None = None
        self._written_at = 0.0

    async def take_over(self, token: Token) -> QueryMark | None:
        """The query's mark, before it goes on from this token. Raises LostCheckpoint."""
        mark = await self._read(token.member)
        if mark is not None:
            self._is_checked = True  # when this query was started for the first time
        if mark is not None and token.batch < mark.begun:
            self._refuse(
                f"the checkpoint is older than the query of group {self._group}: it has micro-batch {token.batch} of "
                f"this source, and micro-batch {mark.begun} was begun. Was it restored from a copy? Sinks that "
                "remember micro-batches by number (files, Delta) would skip the next ones, and their records would be "
                f"lost. Use the newest checkpoint. If it is lost, start the query with {NEW_CHECKPOINT}"
            )
            # From now on, numbers up to that of the mark stand for other micro-batches.
            async with self._storing:
                await self._write(Known(token.member, QueryMark(token.batch, token.batch, None), {}))
        return mark

    def forget_offset(self, topic: str) -> None:
        """This topic was created again, so that the offset of the old one says nothing."""
        self._offsets.pop((topic, _PARTITION), None)

    async def check_new(self, member: str) -> None:
        """This query has begun no micro-batch. Raises LostCheckpoint if it seems to replace another query."""
        if self._is_checked:
            return
        if await anyio.to_thread.run_sync(has_temporary_checkpoint):
            self._is_checked, self._is_kept = True, False
            log.warning(
                "this query has no checkpointLocation, and so a temporary checkpoint: it begins with micro-batch 0 "
                "whenever it is started, and a sink that remembers micro-batches by number would lose records"
            )
            return
        others = await abandoned_queries(self._router, self._group, member, self._topics)
        for other, mark in others.items():
            self._refuse(
                f"this query begins with an empty checkpoint, and another query of group {self._group} has begun "
                f"{mark.begun:,} micro-batches and isn't running (member {other}). If its checkpoint was lost, sinks "
                "that remember micro-batches by number (files, Delta) would skip as many of this query, and their "
                "records would be lost. Start it from its checkpoint. If that is lost, or if this is another query, "
                f"start it with {NEW_CHECKPOINT}"
            )
        self._is_checked = True

    async def run(self) -> None:
        """Store the mark when it has changed, and every few seconds, until this is cancelled."""
        while True:
            await anyio.sleep(_CHANGES_S)
            try:
                await self._store()
            except KshareError as error:
                log.info("the mark of the query can't be stored now: %s", error)

    async def begin(self, batch: int) -> None:
        """Store the mark before Spark reads this micro-batch. From then on, a sink may know its number."""
        if self._written is not None and self._written.begun >= batch:
            return
        try:
            with anyio.fail_after(_BEGIN_S):
                await self._store()
        except (KshareError, TimeoutError) as error:
            log.warning(
                "the mark of group %s for micro-batch %d can't be stored now (%s). Until it is, the query doesn't "
                "recognize a checkpoint that is older than this micro-batch",
                self._group,
                batch,
                error or f"no response within {_BEGIN_S:.0f} s",
            )

    async def stop(self) -> None:
        """The query is stopped: store what is known at the end, and that it no longer runs."""
        try:
            await self._store(is_last=True)
        except KshareError as error:
            log.info("the last mark of the query can't be stored: %s", error)
        self._is_kept = False

    async def _store(self, *, is_last: bool = False) -> None:
        async with self._storing:
            known = self._known()
            if known is None or not self._is_kept:
                return
            is_due = is_last or anyio.current_time() - self._written_at >= BEAT_S
            if known.mark != self._written or is_due:
                await self._write(known, beat=0 if is_last else int(wall_time() * 1000))

    async def _write(self, known: Known, beat: int = 0) -> None:
        text = replace(known.mark, beat=beat).to_text()
        texts = {(topic, _PARTITION): text for topic in self._topics}
        # Until this process acquires something, it only knows where the group is, which may be behind.
        offsets = {where: max(known.offsets.get(where, 0), self._offsets.get(where, 0)) for where in texts}
        try:
            await commit_texts(self._router, mark_group(self._group, known.member), texts, offsets)
        except NotAuthorized as error:
            self._on_refused(error)
        else:
            self._written, self._written_at = known.mark, anyio.current_time()

    async def _read(self, member: str) -> QueryMark | None:
        try:
            texts = await committed_texts(self._router, mark_group(self._group, member))
        except NotAuthorized as error:
            self._on_refused(error)
            return None
        self._offsets = {where: text.offset for where, text in texts.items()}
        return newest_mark(texts)

    def _refuse(self, reason: str) -> None:
        if self._fails_on_loss:
            raise LostCheckpoint(reason)
        log.warning("%s. It continues, because failOnLostCheckpoint is false", reason)

    def _on_refused(self, error: NotAuthorized) -> None:
        self._is_kept = False
        log.warning(
            "the mark of this query can't be kept, so that an old or lost checkpoint, and resets of the group's "
            "offsets, aren't always recognized: %s",
            error,
        )
