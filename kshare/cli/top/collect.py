"""Takes readings of a cluster. If a response is missing, its figures are unknown, and watching continues."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import anyio

from kshare.admin import groups, offsets
from kshare.admin.log_reading import LogReader
from kshare.admin.progress import ProgressReader
from kshare.admin.results import GroupDescription, GroupListing, PartitionOffset, PartitionProgress
from kshare.admin.routing import Router
from kshare.cli.cluster.known_groups import no_group
from kshare.cli.top.snapshot import GroupReading, PartitionReading, Snapshot
from kshare.errors import BrokerError, KshareError

T = TypeVar("T")

_AT_ONCE = 8
_PEEK_BYTES = 16 * 1024


class Collector:
    """Takes readings. Caches what doesn't change: topic ids, and when records were written."""

    def __init__(self, router: Router, chosen: Sequence[str]) -> None:
        self._router = router
        self._chosen = chosen
        self._progress = ProgressReader(router)
        self._reader = LogReader(router)
        self._written: dict[tuple[bytes, int, int], float | None] = {}

    async def read(self) -> Snapshot:
        listed = await groups.list_groups(self._router, ("share",), ())
        missing: tuple[str, ...] = ()
        if self._chosen:
            group_names = [one.group for one in listed]
            missing = tuple(
                no_group(name, group_names) for name in dict.fromkeys(self._chosen) if name not in group_names
            )
            listed = [one for one in listed if one.group in self._chosen]
        details: dict[str, _GroupDetails] = {}

        async def ask(one: GroupListing) -> None:
            details[one.group] = await self._ask(one.group)

        await _side_by_side(ask, listed)
        progress = await self._progress.read({group: each.offsets for group, each in details.items()})
        found: dict[str, list[PartitionReading]] = {group: [] for group in details}

        async def look(pair: tuple[str, PartitionProgress]) -> None:
            group, one = pair
            found[group].append(_partition(group, one, await self._oldest(one)))

        pairs = [
            (group, one) for group, rows in progress.items() for one in rows if one.end_offset is not None
        ]
        await _side_by_side(look, pairs)
        self._forget(found)
        return Snapshot(
            time.time(),
            anyio.current_time(),
            tuple(_group(one, details[one.group], found[one.group]) for one in listed),
            missing,
        )

    async def _ask(self, group: str) -> _GroupDetails:
        details = _GroupDetails()
        try:
            details.description = await groups.describe_share_group(self._router, group)
            details.offsets = await offsets.share_group_offsets(self._router, group, None)
        except BrokerError as error:  # it may be deleted, or we may lack the permission
            details.problem = error.name
        return details

    async def _oldest(self, one: PartitionProgress) -> float | None:
        """When the first record that isn't settled was written."""
        start, end = one.start_offset, one.end_offset
        topic_id = self._progress.topic_ids.get(one.topic)
        if start is None or end is None or topic_id is None or start >= end or one.lag == 0:
            return None
        return await self._written_at(topic_id, one.partition, start)

    async def _written_at(self, topic_id: bytes, partition: int, offset: int) -> float | None:
        where = (topic_id, partition, offset)
        if where not in self._written:
            try:
                fetch = await self._reader.fetch((topic_id, partition), offset, _PEEK_BYTES)
            except BrokerError:
                return None
            self._written[where] = next(
                (
                    record.timestamp / 1000
                    for batch, is_for_users in fetch.batches()
                    if is_for_users
                    for record in batch
                    if record.offset >= offset
                ),
                None,
            )
        return self._written[where]

    def _forget(self, found: Mapping[str, Sequence[PartitionReading]]) -> None:
        """Start offsets advance, so old entries are useless."""
        if len(self._written) > 4 * sum(map(len, found.values())) + 100:
            self._written.clear()


class _GroupDetails:
    """What a group's coordinator reports."""

    def __init__(self) -> None:
        self.description: GroupDescription | None = None
        self.offsets: list[PartitionOffset] = []
        self.problem: str | None = None


def _partition(group: str, one: PartitionProgress, oldest: float | None) -> PartitionReading:
    assert one.end_offset is not None, "others are left out"
    return PartitionReading(
        group,
        one.topic,
        one.partition,
        one.start_offset,
        one.end_offset,
        one.lag,
        one.redelivered,
        one.most_deliveries,
        oldest,
        one,
    )


def _group(
    listed: GroupListing, details: _GroupDetails, partitions: Iterable[PartitionReading]
) -> GroupReading:
    described = details.description
    return GroupReading(
        listed.group,
        described.state if described else listed.state,
        described.members if described else (),
        tuple(sorted(partitions, key=lambda one: (one.topic, one.partition))),
        details.problem,
    )


async def _side_by_side(do: Callable[[T], Awaitable[None]], items: Iterable[T]) -> None:
    """Run a few at a time. The first error ends it, and is raised as it is, not in an exception group."""
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
