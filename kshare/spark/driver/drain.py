"""Decides when a query with AvailableNow has emitted everything that was in its topics when it started.

If the group hasn't delivered all of it, decides what the query says, and whether it fails: nobody looks at the lag of a
query that has ended normally.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import anyio

from kshare.admin.results import TopicPartition
from kshare.engine.member import GroupMember
from kshare.errors import KshareError
from kshare.spark.driver.custody import Custody
from kshare.spark.driver.group_position import GroupPosition
from kshare.spark.driver.range_holdings import RangeHoldings
from kshare.spark.options import ReadOptions
from kshare.wording import shell_word

log = logging.getLogger("kshare.spark")

_REFRESH_S = 0.5
"""How often to request the group's offsets while nothing arrives."""
_QUIET_S = 3.0
"""A drain ends this long after the last record if we aren't authorized to read the group's offsets."""
_USUAL_SESSION_S = 50.0
"""By default, Kafka removes a silent member after 45 s, and locks last 30 s."""
_NAMED = 10
"""How many partitions a message names."""


class Drain:
    """`ends`: the end of each partition when the query started."""

    def __init__(
        self,
        options: ReadOptions,
        custody: Custody,
        holdings: RangeHoldings,
        position: GroupPosition,
        ends: Mapping[TopicPartition, int],
    ) -> None:
        self._options = options
        self._custody = custody
        self._holdings = holdings
        self._position = position
        self._ends = ends
        self._ids = position.topic_ids
        self._refresh_at = 0.0

    async def is_complete(self, quiet: float, member: GroupMember | None) -> bool:
        """Whether nothing is left: for certain, or because nothing has arrived for longer than sessions and locks last.

        `quiet`: for how many seconds nothing has arrived. Until then, a crashed consumer may still have locked records,
        or an assigned partition. Records that another consumer keeps for longer by renewing their locks aren't waited
        for.
        """
        if self._holdings.delayed.total or self._custody.waiting:
            return False
        responds_early = member is not None and member.responds_early
        if quiet > max(self._holdings.lock_s or 0.0, _USUAL_SESSION_S):
            await self._position.refresh()
            report_rest(self._options.group, self._rest(), quiet, responds_early=responds_early)
            return True
        if anyio.current_time() >= self._refresh_at:
            self._refresh_at = anyio.current_time() + _REFRESH_S
            await self._position.refresh()
        if not self._position.counters.starts and quiet > _QUIET_S and not responds_early:
            return True
        is_settled = member is not None and member.is_settled
        return not self._rest() and is_settled and not self._has_unconfirmed()

    def _rest(self) -> list[str]:
        """The offsets that haven't been delivered.

        A topic that was created again since has nothing that was there at the start.
        """
        ids = self._position.topic_ids
        reached = {
            where: self._position.reached(where)
            for where in self._ends
            if where not in self._position.counters.finished and self._ids.get(where[0]) == ids.get(where[0])
        }
        return undelivered_ranges(self._ends, reached)

    def _has_unconfirmed(self) -> bool:
        """Whether anything is owed in a topic that is subscribed to. Records of others aren't redelivered to us."""
        names = self._custody.names
        return any(names[span.partition[0]] in self._options.topics for span in self._custody.owed_spans())


def undelivered_ranges(
    ends: Mapping[TopicPartition, int], reached: Mapping[TopicPartition, int]
) -> list[str]:
    """The offsets before `ends` that haven't been delivered. Partitions that `reached` leaves out are finished."""
    return [
        f"{topic}[{number}] from offset {reached[topic, number]} to {end - 1}"
        for (topic, number), end in sorted(ends.items())
        if reached.get((topic, number), end) < end
    ]


def report_rest(group: str, rest: Sequence[str], quiet: float, *, responds_early: bool) -> None:
    """Raises KshareError if others can't be the reason: a broker responds to fetches at once, without records."""
    if not rest:
        return
    others = f" and {len(rest) - _NAMED} other partitions" if rest[_NAMED:] else ""
    names = f"{', '.join(rest[:_NAMED])}{others}"
    if responds_early:
        raise KshareError(
            f"group {group} hasn't delivered all records: {names}. Nothing has arrived for {int(quiet)} s, and a "
            "broker responds to fetches at once, without records. Brokers do so if records were deleted in the middle "
            "of a producer batch, until no consumer of the group has a session with them: stop all consumers of the "
            "group at the same time, then start the query again"
        )
    log.warning(
        "the query ends although group %s hasn't delivered all records: %s. Nothing has arrived for %d s: "
        "another consumer may keep them locked, or a broker doesn't deliver them. `kshare groups describe %s` "
        "shows the lag; the next start of the query tries again",
        group,
        names,
        int(quiet),
        shell_word(group),
    )
