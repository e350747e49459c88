"""How many records of a partition a share group may lock at once, and what to do if that is too few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kshare.admin.configs import broker_values, group_config
from kshare.admin.routing import Router
from kshare.spark.ranges import RecordRange
from kshare.wording import shell_word

LOCKS = "share.partition.max.record.locks"
_BROKERS_DEFAULT = f"group.{LOCKS}"
_MOST = "group.share.max.partition.max.record.locks"


@dataclass(frozen=True, slots=True)
class LockLimit:
    """`locks` per partition; `most` is what the brokers allow for a group, if they tell."""

    locks: int
    most: int | None = None
    is_of_brokers: bool = False
    """Before Kafka 4.3, the limit is a setting of the brokers, for all groups."""


async def lock_limit(router: Router, group: str) -> LockLimit | None:
    """The group's limit; None if the brokers don't tell. Raises KshareError if we may not ask."""
    for entry in await group_config(router, group):
        if entry.name == LOCKS and entry.value:
            return LockLimit(int(entry.value), int(entry.highest) if entry.highest else None)
    value = (await broker_values(router, [_BROKERS_DEFAULT])).get(_BROKERS_DEFAULT)
    return LockLimit(int(value), is_of_brokers=True) if value else None


def shortage(ranges: Iterable[RecordRange], wanted: int, group: str, limit: LockLimit) -> str | None:
    """Why a lease has fewer records than `wanted`, and how to get more; None if locks aren't the reason."""
    counts: Counter[tuple[str, int]] = Counter()
    for range_ in ranges:
        counts[range_.topic_id, range_.partition] += len(range_)
    full = sum(count >= limit.locks for count in counts.values())
    if not full or counts.total() >= wanted:
        return None
    return (
        f"the lease has {counts.total():,} of {wanted:,} records: group {group} locks at most {limit.locks:,} records "
        f"of a partition at once, and {full} of {len(counts)} partitions have reached that. {_remedy(group, limit)}"
    )


def _remedy(group: str, limit: LockLimit) -> str:
    others = "use more partitions, or several leases one after the other"
    if limit.is_of_brokers:
        return f"For more, raise the brokers' {_BROKERS_DEFAULT}, {others}"
    if limit.most is not None and limit.most <= limit.locks:
        return f"For more, raise the brokers' {_MOST} (now {limit.most:,}) and then the group's {LOCKS}, {others}"
    value = limit.most or "..."
    bound = f" (the brokers' {_MOST} allows up to {limit.most:,})" if limit.most else ""
    return f"For more, run `kshare groups config set {shell_word(group)} {LOCKS}={value}`{bound}, {others}"
