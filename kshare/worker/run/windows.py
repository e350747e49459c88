"""How far the in-flight windows of a group reach: other members acquire records, too.

A member knows what it has acquired itself. That isn't enough to see how much of a window a record pins: while it holds
one record, others may have settled all that follow, until the window was full. So while something is held, or runs, for
long, brokers are asked where the window starts, how many records behind that are settled, and where the log ends:

    settled behind the start     → were acquired once, so the window reaches that far at least
    nothing moves from one look to the next, and a member that wants records gets none, though the log has records
    behind the largest window    → the window is full
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from kshare.admin.log_offsets import LATEST, log_offsets
from kshare.admin.offsets import share_group_offsets
from kshare.admin.routing import Router
from kshare.errors import KshareError

if TYPE_CHECKING:
    from kshare.worker.run.runner import HandlerRunner

log = logging.getLogger("kshare.worker")

LOOK_AT_WINDOWS_S = 5.0
"""How often brokers are asked about the windows of a handler that pins some for as long: three requests, and one to
each leader of their partitions."""

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class GroupWindow:
    start: int
    settled: int
    """How many records behind the start are settled, at least."""
    log_end: int


class Reach:
    """The last offsets of windows, as far as they are known. For one handler. Pure."""

    def __init__(self) -> None:
        self._last: dict[TopicPartition, tuple[GroupWindow, int]] = {}

    def look(
        self,
        windows: Mapping[TopicPartition, GroupWindow],
        *,
        limit: int,
        newest: Callable[[TopicPartition], int],
        is_idle: bool,
    ) -> dict[TopicPartition, int]:
        """`limit` is the largest window, `newest` the last offset that was acquired here. `is_idle`: whether more
        records are wanted, and none are there."""
        before, self._last = self._last, {}
        found: dict[TopicPartition, int] = {}
        for where, window in windows.items():
            # The end of the log may move all the time.
            seen = GroupWindow(window.start, window.settled, 0), newest(where)
            found[where] = window.start + window.settled - 1
            if is_idle:
                self._last[where] = seen
                if before.get(where) == seen and window.log_end >= window.start + limit:
                    found[where] = window.start + limit - 1
        return found


async def read_windows(
    router: Router, group: str, where: Sequence[TopicPartition]
) -> dict[TopicPartition, GroupWindow]:
    """Raises KshareError."""
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in where:
        topics[topic].append(partition)
    # The ends come first: what is written between the two responses makes the number of settled records too small.
    ends = await log_offsets(router, where, LATEST)
    found: dict[TopicPartition, GroupWindow] = {}
    for row in await share_group_offsets(router, group, topics):
        place, start = (row.topic, row.partition), row.start_offset
        if start is not None and place in ends:
            # Kafka 4.1 doesn't know the lag.
            settled = 0 if row.lag is None else max(0, ends[place] - start - row.lag)
            found[place] = GroupWindow(start, settled, ends[place])
    return found


async def watch_windows(router: Router, handlers: Sequence[HandlerRunner]) -> None:
    """Look at what handlers pin for long, until cancelled. `handlers` may become more."""
    before: dict[HandlerRunner, dict[TopicPartition, int]] = {}
    while True:
        await anyio.sleep(LOOK_AT_WINDOWS_S)
        pinned = {handler: handler.pinned() for handler in handlers}
        for handler, offsets in pinned.items():
            known, group = before.get(handler, {}), handler.route.group
            where = [place for place, offset in offsets.items() if known.get(place) == offset]
            if not where:
                continue
            try:
                with anyio.move_on_after(2 * LOOK_AT_WINDOWS_S):
                    handler.on_windows(await read_windows(router, group, where))
            except KshareError as problem:
                log.debug("group %s: its in-flight windows can't be read: %s", group, problem)
        before = pinned
