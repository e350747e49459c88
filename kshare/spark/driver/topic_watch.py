"""Detects that a topic of a running query doesn't exist, or was deleted.

Decides whether the query fails. The member only notices deletions of topics of which it holds records.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kshare.admin.routing import Router
from kshare.errors import KshareError, own_copy
from kshare.spark.existence import GRACE_S, TopicIds, UnknownTopic, topic_ids

log = logging.getLogger("kshare.spark")


class TopicDeleted(KshareError):
    """A topic was deleted while a query read from it."""


class TopicWatch:
    """The topics of one query. `fails_on_loss`: whether the query fails if one is deleted."""

    def __init__(self, router: Router, topics: Sequence[str], *, fails_on_loss: bool) -> None:
        self._router = router
        self._topics = topics
        self._fails_on_loss = fails_on_loss
        self._ids: TopicIds | None = None
        self._problem: TopicDeleted | None = None

    @property
    def ids(self) -> TopicIds:
        """The ids of the topics, as last requested; empty before `start`."""
        return self._ids or {}

    async def start(self) -> None:
        """Raise UnknownTopic if a topic doesn't exist. Does nothing the second time."""
        if self._ids is None:
            self._ids = await topic_ids(self._router, self._topics, grace_s=GRACE_S)

    async def refresh(self) -> None:
        """Find out which topics were deleted, whether or not there are new ones with their names."""
        if self._ids is None:
            return
        now: TopicIds = {}
        for name in self._ids:
            try:
                now |= await topic_ids(self._router, [name], grace_s=GRACE_S)
            except UnknownTopic:
                continue
        deleted = [name for name, topic_id in self._ids.items() if now.get(name) != topic_id]
        if deleted and self._fails_on_loss:
            self._problem = TopicDeleted(
                f"{_deletion(deleted)}. If it is gone for good, remove it from the option subscribe; then start the "
                'query again. With option("failOnDataLoss", "false"), a query continues when a topic is deleted'
            )
        elif deleted:
            log.warning("%s; continuing, because failOnDataLoss is false", _deletion(deleted))
        self._ids = now

    def check(self) -> None:
        """Raise TopicDeleted if the query has to fail."""
        if self._problem is not None:
            raise own_copy(self._problem)


def _deletion(names: Sequence[str]) -> str:
    return (
        f"topic {' and '.join(names)} was deleted while the query was running: records of it that the group hadn't "
        "received yet are lost"
    )
