"""How many records dead-letter topics have: 3 Metadata and 2 ListOffsets per leader, if a group has such a topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets
from kshare.admin.routing import Router
from kshare.errors import BrokerError


async def count_records(router: Router, topics: Iterable[str]) -> dict[str, int]:
    """Without topics that don't exist, or that we may not read."""
    wanted = set(topics)
    if not wanted:
        return {}
    partitions = [
        (one.name or "", row.partition_index)
        for one in (await router.metadata(None)).topics
        if one.name in wanted
        for row in one.partitions
        if row.leader_id >= 0
    ]
    if not partitions:
        return {}
    try:
        firsts = await log_offsets(router, partitions, EARLIEST)
        ends = await log_offsets(router, partitions, LATEST)
    except BrokerError:  # a topic was deleted meanwhile, or we lack the permission
        return {}
    counts: Counter[str] = Counter()
    for where, end in ends.items():
        counts[where[0]] += max(0, end - firsts.get(where, end))
    return dict(counts)
