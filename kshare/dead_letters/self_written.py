"""Finds groups whose members write their dead letters themselves, as kshare's workers do: no group's config tells."""

from __future__ import annotations

from collections.abc import Collection

from kshare.admin.record_search import SearchLimits, search_records
from kshare.admin.routing import Router
from kshare.dead_letters.dead_letter import read
from kshare.dead_letters.overview import overview
from kshare.dead_letters.read import bounds
from kshare.protocol.record import Record

_MOST_TOPICS = 20
_NEWEST = 20
"""Dead letters of each partition that are looked at."""
_LIMITS = SearchLimits(found=1, records=500, bytes=4 << 20, seconds=2.0)


async def self_written(router: Router, groups: Collection[str]) -> dict[str, str]:
    """Of these groups, those that the newest dead letters name, with the topic. Raises BrokerError."""
    found: dict[str, str] = {}
    for row in (await overview(router, {}))[:_MOST_TOPICS]:
        topic = row.topic
        firsts, ends = await bounds(router, topic)
        spans = {name[1]: (max(firsts[name], end - _NEWEST), end) for name, end in ends.items()}

        def note(partition: int, record: Record, topic: str = topic) -> bool:
            group = read(topic, partition, record).group
            if group is not None and group in groups:
                found.setdefault(group, topic)
            return False

        await search_records(router, topic, spans, note, _LIMITS)
    return found
