"""Finds other queries of the group that have begun micro-batches and don't run: their checkpoint may be lost.

The group's members don't tell which queries run: a member whose driver was killed stays in the group until its session
times out. But a query that runs stores its mark again and again, each time with another beat.

    the other query's mark          | the query
    --------------------------------+------------------------------------------
    has no beat                     | was stopped
    has another beat a moment later | runs
    still has the same beat         | was killed, or can't reach the brokers

Decides how long to wait for another beat. Whoever asks decides what to do about a query that doesn't run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

import anyio

from kshare.admin.committed_texts import CommittedText, committed_texts
from kshare.admin.groups import list_groups
from kshare.admin.results import TopicPartition
from kshare.admin.routing import Router
from kshare.errors import NotAuthorized
from kshare.spark.driver.query_mark import QueryMark, mark_group, member_of

log = logging.getLogger("kshare.spark")

SIGN_OF_LIFE_S = 20.0
"""How long to wait for a sign of life. Four times as long as marks without changes are stored again."""
_LOOK_S = 0.5


class SignsOfLife:
    """Which of several queries run, as their marks show. Pure: the caller reads the marks, and reads the clock."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        """The beats that were seen first, by member id."""
        self._silent: dict[str, QueryMark] = {}

    def see(self, marks: Mapping[str, QueryMark]) -> None:
        """The newest marks, by member id."""
        self._silent = {
            member: mark
            for member, mark in marks.items()
            if not mark.beat or self._first.setdefault(member, mark.beat) == mark.beat
        }

    @property
    def silent(self) -> dict[str, QueryMark]:
        """The queries that haven't shown that they run."""
        return dict(self._silent)

    @property
    def stopped(self) -> dict[str, QueryMark]:
        """Those that certainly don't run."""
        return {member: mark for member, mark in self._silent.items() if not mark.beat}


async def abandoned_queries(
    router: Router, group: str, member: str, topics: tuple[str, ...]
) -> dict[str, QueryMark]:
    """The marks of other queries that read one of these topics and don't run, by member id."""
    signs = SignsOfLife()
    asked = [other for other in await _others(router, group) if other != member]
    deadline = anyio.current_time() + SIGN_OF_LIFE_S
    is_told = False
    while True:
        signs.see(await _marks(router, group, asked, topics))
        if signs.stopped or not signs.silent or anyio.current_time() >= deadline:
            return signs.stopped or signs.silent
        if not is_told:
            is_told = True
            log.info(
                "waiting for up to %.0f s for a sign that another query of group %s is running (member %s)",
                SIGN_OF_LIFE_S,
                group,
                ", ".join(signs.silent),
            )
        asked = [*signs.silent]
        await anyio.sleep(_LOOK_S)


async def _others(router: Router, group: str) -> list[str]:
    """The member ids of the group's queries that have marks."""
    try:
        groups = await list_groups(router, (), ())
    except NotAuthorized as error:
        log.info("it is unknown whether there were other queries of group %s: %s", group, error)
        return []
    return [other for listed in groups if (other := member_of(listed.group, group)) is not None]


async def _marks(
    router: Router, group: str, members: Iterable[str], topics: tuple[str, ...]
) -> dict[str, QueryMark]:
    """The marks of these queries, without those that read other topics."""
    found = {}
    for member in members:
        texts = await committed_texts(router, mark_group(group, member))
        mark = newest_mark(texts)
        if mark is not None and any(topic in topics for topic, _ in texts):
            found[member] = mark
    return found


def newest_mark(texts: Mapping[TopicPartition, CommittedText]) -> QueryMark | None:
    """All topics of a query have its mark, but those that it no longer reads have an older one."""
    marks = (QueryMark.from_text(text.text) for text in texts.values())
    return max(
        (mark for mark in marks if mark is not None), key=lambda mark: (mark.begun, mark.beat), default=None
    )
