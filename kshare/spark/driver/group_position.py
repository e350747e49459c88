"""Where the group and its query are in each partition, and what follows when the group's offsets are reset.

    what is found                          | what follows
    ---------------------------------------+----------------------------------------------------------------
    the group's start has passed an offset,| nothing before it is owed: it won't be redelivered
    or it has no lag                       |
    the group's start is lower than before | what the group delivers again is emitted again, and a warning
    a topic has another id                 | nothing of the old topic is owed, and no place in it counts

Requests the offsets; `Custody` decides what is emitted.
"""

from __future__ import annotations

import logging
from uuid import UUID

from kshare.admin.offsets import share_group_offsets
from kshare.admin.results import PartitionOffset, TopicPartition
from kshare.admin.routing import Router
from kshare.errors import BrokerError, KshareError
from kshare.protocol.error_codes import ErrorCode
from kshare.spark.driver.counters import QueryCounters
from kshare.spark.driver.custody import Custody
from kshare.spark.driver.range_holdings import RangeHoldings
from kshare.spark.driver.topic_watch import TopicWatch
from kshare.spark.existence import TopicIds, topic_ids
from kshare.spark.options import ReadOptions
from kshare.spark.ranges import StartOffset, Token

log = logging.getLogger("kshare.spark")


class GroupPosition:
    """The position of one query. The group's start offsets, as last requested, are in `counters`."""

    def __init__(
        self,
        router: Router,
        options: ReadOptions,
        custody: Custody,
        holdings: RangeHoldings,
        topics: TopicWatch,
        counters: QueryCounters,
    ) -> None:
        self._router = router
        self._options = options
        self._custody = custody
        self._holdings = holdings
        self._topics = topics
        self.counters = counters
        self._first_ids: TopicIds = {}
        """The ids of the topics when the query's position was taken over."""

    @property
    def topic_ids(self) -> TopicIds:
        """As last requested."""
        return self._topics.ids or self._first_ids

    async def take_over(self, token: Token) -> list[str]:
        """Find out in which partitions the group's offsets have been set to earlier ones since this token.

        Topics that were created again have new ids. Nothing of the old ones can be redelivered, so a drain mustn't wait
        for that. Returns their names.
        """
        try:
            ids = await topic_ids(self._router, self._options.topics)
        except KshareError as error:
            log.info("it is unknown whether the topics exist: %s", error)
            return []
        owed = {UUID(range_.topic_id).bytes: range_.topic for range_ in (*token.acquired, *token.owed)}
        created_again = []
        for topic_id, name in (owed | self._custody.names).items():
            if ids.get(name, topic_id) != topic_id:
                self._custody.topic_gone(topic_id)
                created_again.append(name)
        names = {str(UUID(bytes=topic_id)): name for name, topic_id in ids.items()}
        self.counters.starts = {
            (names[start.topic_id], start.partition): start.offset
            for start in token.starts
            if start.topic_id in names
        }
        self._first_ids = ids
        await self.refresh()
        return created_again

    async def refresh(self) -> None:
        """Request the group's offsets. Errors are only logged: queries work without the right to describe the group."""
        # Taken before the request: the response doesn't cover what becomes owed meanwhile.
        unconfirmed = self._custody.owed_spans()
        try:
            group_offsets = await share_group_offsets(
                self._router, self._options.group, dict.fromkeys(self._options.topics)
            )
        except KshareError as error:
            if not isinstance(error, BrokerError) or error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                log.info("the group's offsets are unknown: %s", error)
                return
            group_offsets = [PartitionOffset(*where, None, -1, None) for where in self.counters.starts]
        for where, before in self.counters.on_group_offsets(group_offsets).items():
            self._on_went_back(where, before)
        for span in unconfirmed:
            topic_id, number = span.partition
            where = (self._custody.names[topic_id], number)
            if where in self.counters.finished:
                self._custody.confirmed(span)
            elif (start := self.counters.starts.get(where)) is not None:
                self._custody.start_moved(span.partition, start)

    def _on_went_back(self, where: TopicPartition, before: int) -> None:
        """The group's start offset in this partition is lower than before."""
        topic, number = where
        now = self.counters.starts.get(where)
        log.warning(
            "the start offset of group %s in %s[%d] was %d, and %s: redelivered records are emitted again",
            self._options.group,
            topic,
            number,
            before,
            "was deleted" if now is None else f"is {now} now",
        )
        if (topic_id := self.topic_ids.get(topic)) is not None:
            self._custody.went_back((topic_id, number))

    def starts(self) -> tuple[StartOffset, ...]:
        """The group's start offsets, for the next token."""
        ids = self.topic_ids
        return tuple(
            sorted(
                StartOffset(str(UUID(bytes=ids[topic])), number, offset)
                for (topic, number), offset in self.counters.starts.items()
                if topic in ids
            )
        )

    def reached(self, where: TopicPartition) -> int:
        """How far the query is in the topic that has this name now: it has acquired what comes before."""
        topic, number = where
        topic_id = self.topic_ids.get(topic)
        acquired = 0 if topic_id is None else self._holdings.reached.get((topic_id, number), 0)
        return max(acquired, self.counters.starts.get(where, 0))

    def offsets(self) -> dict[TopicPartition, int]:
        """Where the query is. Until a restarted one acquires something, that is where the group is."""
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        acquired = {
            (names[topic_id], number) for topic_id, number in self._holdings.reached if topic_id in names
        }
        return {where: self.reached(where) for where in acquired | self.counters.starts.keys()}
