"""Readings taken of a cluster. Decides what is asked, and what an answer that is missing means: a figure that is not
known, never an end of watching.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import anyio

from kshare.admin import groups, offsets
from kshare.admin.log_offsets import LATEST, log_offsets
from kshare.admin.log_reading import LogReader
from kshare.admin.results import GroupDescription, GroupListing, PartitionOffset, TopicPartition
from kshare.admin.routing import Router
from kshare.cli.watching.reading import GroupReading, PartitionReading, Reading
from kshare.cli.watching.stored_states import StoredStates
from kshare.errors import BrokerError, KshareError
from kshare.state.share_records import UNDECIDED, SharePartition, ShareState

T = TypeVar("T")

_AT_ONCE = 8
_PEEK_BYTES = 16 * 1024


class Collector:
    """Remembers what doesn't change: topic ids, and when records were written."""

    def __init__(self, router: Router, chosen: Sequence[str]) -> None:
        self._router = router
        self._chosen = chosen
        self._states = StoredStates(router)
        self._reader = LogReader(router)
        self._written: dict[tuple[bytes, int, int], float | None] = {}

    async def read(self) -> Reading:
        listed = await groups.list_groups(self._router, ("share",), ())
        if self._chosen:
            listed = [one for one in listed if one.group in self._chosen]
        told: dict[str, _Told] = {}

        async def ask(one: GroupListing) -> None:
            told[one.group] = await self._ask(one.group)

        await _side_by_side(ask, listed)
        where = {(one.topic, one.partition) for each in told.values() for one in each.offsets}
        ends, ids = await self._logs(where)
        states = await self._states.of(
            SharePartition(group, ids[one.topic], one.partition)
            for group, each in told.items()
            for one in each.offsets
            if one.topic in ids
        )
        found: dict[str, list[PartitionReading]] = {group: [] for group in told}

        async def look(pair: tuple[str, PartitionOffset]) -> None:
            group, one = pair
            state = states.get(SharePartition(group, ids[one.topic], one.partition))
            found[group].append(await self._partition(group, one, ids, ends, state))

        pairs = [
            (group, one)
            for group, each in told.items()
            for one in each.offsets
            if (one.topic, one.partition) in ends
        ]
        await _side_by_side(look, pairs)
        self._forget(found)
        return Reading(
            time.time(),
            anyio.current_time(),
            tuple(_group(one, told[one.group], found[one.group]) for one in listed),
        )

    async def _ask(self, group: str) -> _Told:
        told = _Told()
        try:
            told.description = await groups.describe_share_group(self._router, group)
            told.offsets = await offsets.share_group_offsets(self._router, group, None)
        except BrokerError as error:  # it may be gone, or not for us to see
            told.problem = error.name
        return told

    async def _logs(
        self, where: Iterable[TopicPartition]
    ) -> tuple[dict[TopicPartition, int], dict[str, bytes]]:
        """Ends of logs, and ids of topics; without those that are gone."""
        wanted = set(where)
        topics = {one.name: one for one in (await self._router.metadata(None)).topics if one.name}
        led = {
            (name, row.partition_index)
            for name, topic in topics.items()
            for row in topic.partitions
            if row.leader_id >= 0
        }
        ids = {topic: topics[topic].topic_id for topic, _ in wanted if topic in topics}
        try:
            return await log_offsets(self._router, wanted & led, LATEST) if wanted & led else {}, ids
        except BrokerError:
            return {}, ids

    async def _partition(
        self,
        group: str,
        one: PartitionOffset,
        ids: Mapping[str, bytes],
        ends: Mapping[TopicPartition, int],
        state: ShareState | None,
    ) -> PartitionReading:
        end = ends[one.topic, one.partition]
        start, lag, again, most = one.start_offset, one.lag, None, None
        if state is not None and state.start_offset != UNDECIDED:
            open_ = list(state.open_ranges(end))
            before = [each for each in open_ if each.deliveries]
            # What is stored as its start may be behind what is stored as settled.
            start = open_[0].first if open_ else end
            # The coordinator said the same a moment before; figures of one moment go together.
            lag = sum(each.size for each in open_)
            again = sum(each.size for each in before)
            most = max((each.deliveries for each in before), default=0)
        oldest = None
        if start is not None and start < end and lag != 0:
            oldest = await self._written_at(ids[one.topic], one.partition, start)
        return PartitionReading(group, one.topic, one.partition, start, end, lag, again, most, oldest)

    async def _written_at(self, topic_id: bytes, partition: int, offset: int) -> float | None:
        where = (topic_id, partition, offset)
        if where not in self._written:
            try:
                piece = await self._reader.piece((topic_id, partition), offset, _PEEK_BYTES)
            except BrokerError:
                return None
            self._written[where] = next(
                (
                    record.timestamp / 1000
                    for batch, is_for_users in piece.batches()
                    if is_for_users
                    for record in batch
                    if record.offset >= offset
                ),
                None,
            )
        return self._written[where]

    def _forget(self, found: Mapping[str, Sequence[PartitionReading]]) -> None:
        """Start offsets move on."""
        if len(self._written) > 4 * sum(map(len, found.values())) + 100:
            self._written.clear()


class _Told:
    """What a group's coordinator says."""

    def __init__(self) -> None:
        self.description: GroupDescription | None = None
        self.offsets: list[PartitionOffset] = []
        self.problem: str | None = None


def _group(listed: GroupListing, told: _Told, partitions: Iterable[PartitionReading]) -> GroupReading:
    described = told.description
    return GroupReading(
        listed.group,
        described.state if described else listed.state,
        described.members if described else (),
        tuple(sorted(partitions, key=lambda one: (one.topic, one.partition))),
        told.problem,
    )


async def _side_by_side(do: Callable[[T], Awaitable[None]], items: Iterable[T]) -> None:
    """A few at a time; the first error ends it, as it is and not as part of a group."""
    limit = anyio.CapacityLimiter(_AT_ONCE)
    errors: list[KshareError] = []

    async def one(item: T) -> None:
        async with limit:
            try:
                await do(item)
            except KshareError as error:
                errors.append(error)
                tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for item in items:
            tasks.start_soon(one, item)
    if errors:
        raise errors[0]
