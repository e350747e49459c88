"""Keeps the mark of a query where it outlives the checkpoint, and refuses checkpoints that are older than it, or new.

    the checkpoint            | marks                              | result
    --------------------------+------------------------------------+---------------------------------------------------
    has micro-batches         | none, or not newer                 | the mark says what was accepted meanwhile
    is older than the mark    | its own                            | LostCheckpoint: it was restored from a copy
    has no complete batch     | another query of the group has     | LostCheckpoint: that one's checkpoint may be lost
                              | one, and isn't running             |
    is a temporary one        | any                                | nothing is checked or stored: the query begins
                              |                                    | anew with each start, as users of such sinks want

The mark is a text in a consumer group of the query's own, `<group>.kshare-spark.<member id>`, which has no members.
That needs no topic, takes one request, and is deleted by brokers a week after the query was stopped. Users need Read on
that group; without it, nothing is recognized, and a warning says so.

Sinks that remember micro-batches by number (files, Delta) skip those that they know. Their rows would be accepted, and
be in no output.
"""

from __future__ import annotations

import logging

import anyio

from kshare.admin.committed_texts import commit_texts, committed_texts
from kshare.admin.groups import describe_share_group, list_groups
from kshare.admin.results import TopicPartition
from kshare.admin.routing import Router
from kshare.errors import BrokerError, KshareError, NotAuthorized
from kshare.protocol.error_codes import ErrorCode
from kshare.spark.driver.query_mark import QueryMark, mark_group, member_of
from kshare.spark.driver.temporary_checkpoint import has_temporary_checkpoint
from kshare.spark.new_checkpoint import NEW_CHECKPOINT
from kshare.spark.ranges import Token

log = logging.getLogger("kshare.spark")

_KEPT_S = 6 * 3600.0
"""How often to write a mark that doesn't change, since brokers delete it after a week."""
_PARTITION = 0
"""Of each topic of the query: all of them have the mark, since the query may read others later."""


class LostCheckpoint(KshareError):
    """The checkpoint isn't the newest one of the query, or was lost: rows would be accepted and be in no output."""


class MarkKeeper:
    """The mark of one query. `fails_on_loss`: whether to refuse, or to go on with a warning."""

    def __init__(self, router: Router, group: str, topics: tuple[str, ...], *, fails_on_loss: bool) -> None:
        self._router = router
        self._group = group
        self._topics = topics
        self._fails_on_loss = fails_on_loss
        self._is_kept = True
        self._is_checked = False
        self._offsets: dict[TopicPartition, int] = {}
        """What the process before this one has stored."""
        self._written: QueryMark | None = None
        self._written_at = 0.0

    async def take_over(self, token: Token) -> QueryMark | None:
        """The query's mark, before it goes on from this token. Raises LostCheckpoint."""
        mark = await self._read(token.member)
        if mark is not None and token.batch < mark.complete:
            self._refuse(
                f"the checkpoint is older than the query of group {self._group}: it has micro-batch {token.batch} of "
                f"this source, and micro-batch {mark.complete} was completed. Was it restored from a copy? Sinks that "
                "remember micro-batches by number (files, Delta) would skip the next ones, and their records would be "
                f"lost. Use the newest checkpoint. If it is lost, start the query with {NEW_CHECKPOINT}"
            )
            # From now on, numbers up to that of the mark stand for other micro-batches.
            await self.write(token.member, QueryMark(token.batch, token.batch, None), {})
        return mark

    async def check_new(self, member: str) -> None:
        """No micro-batch of this query is complete. Raises LostCheckpoint if it seems to replace another query."""
        if self._is_checked:
            return
        if await anyio.to_thread.run_sync(has_temporary_checkpoint):
            self._is_checked, self._is_kept = True, False
            log.warning(
                "this query has no checkpointLocation, and so a temporary checkpoint: it begins with micro-batch 0 "
                "whenever it is started, and a sink that remembers micro-batches by number would lose records"
            )
            return
        for other, complete in (await self._abandoned(member)).items():
            self._refuse(
                f"this query begins with an empty checkpoint, and another query of group {self._group} has completed "
                f"{complete:,} micro-batches and isn't running (member {other}). If its checkpoint was lost, sinks "
                "that remember micro-batches by number (files, Delta) would skip as many of this query, and their "
                "records would be lost. Start it from its checkpoint. If that is lost, or if this is another query, "
                f"start it with {NEW_CHECKPOINT}"
            )
        self._is_checked = True

    async def write(self, member: str, mark: QueryMark, offsets: dict[TopicPartition, int]) -> None:
        """Store the mark, if it has changed. `offsets`: where the query is, for those who watch consumer groups."""
        is_old = anyio.current_time() - self._written_at > _KEPT_S
        if not self._is_kept or (mark == self._written and not is_old):
            return
        texts = {(topic, _PARTITION): mark.to_text() for topic in self._topics}
        # Until this process acquires something, it only knows where the group is, which may be behind.
        offsets = {where: max(offsets.get(where, 0), self._offsets.get(where, 0)) for where in texts}
        try:
            await commit_texts(self._router, mark_group(self._group, member), texts, offsets)
        except NotAuthorized as error:
            self._on_refused(error)
        else:
            self._written, self._written_at = mark, anyio.current_time()

    async def _read(self, member: str) -> QueryMark | None:
        try:
            texts = await committed_texts(self._router, mark_group(self._group, member))
        except NotAuthorized as error:
            self._on_refused(error)
            return None
        self._offsets = {where: one.offset for where, one in texts.items()}
        marks = [mark for one in texts.values() if (mark := QueryMark.from_text(one.text)) is not None]
        return max(marks, key=lambda mark: mark.complete, default=None)

    async def _abandoned(self, member: str) -> dict[str, int]:
        """The queries of the group that read one of these topics and aren't running: what they have completed."""
        try:
            groups = await list_groups(self._router, (), ())
            members = await self._members()
        except NotAuthorized as error:
            log.info("it is unknown whether there were other queries of group %s: %s", self._group, error)
            return {}
        found: dict[str, int] = {}
        for one in groups:
            other = member_of(one.group, self._group)
            if other is None or other == member or other in members:
                continue
            texts = await committed_texts(self._router, one.group)
            marks = [
                QueryMark.from_text(one.text) for (topic, _), one in texts.items() if topic in self._topics
            ]
            complete = max((mark.complete for mark in marks if mark is not None), default=0)
            if complete:
                found[other] = complete
        return found

    async def _members(self) -> set[str]:
        try:
            return {one.member_id for one in (await describe_share_group(self._router, self._group)).members}
        except BrokerError as error:
            if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            return set()

    def _refuse(self, reason: str) -> None:
        if self._fails_on_loss:
            raise LostCheckpoint(reason)
        log.warning("%s. It goes on, as failOnLostCheckpoint is false", reason)

    def _on_refused(self, error: NotAuthorized) -> None:
        self._is_kept = False
        log.warning(
            "the mark of this query can't be kept, so that an old or lost checkpoint, and offsets of the group that "
            "are set anew, aren't always recognized: %s",
            error,
        )
