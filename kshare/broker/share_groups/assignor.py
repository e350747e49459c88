"""The simple assignor: each member gets partitions of its topics, and each partition has members.

With fewer members than partitions, each partition is assigned to one member. With more, members share partitions, and
each member has one. Members keep their partitions as far as an even distribution allows.
"""

from __future__ import annotations

from collections.abc import Mapping

from kshare.broker.assigned_groups import Target
from kshare.broker.cluster import TopicIdPartition


def assign(
    wanted: Mapping[str, set[TopicIdPartition]], current: Mapping[str, set[TopicIdPartition]]
) -> Target:
    """The target assignment: `wanted` are the partitions that a member may get, `current` those that it has."""
    partitions = sorted(set[TopicIdPartition]().union(*wanted.values()))
    members = [member for member in sorted(wanted) if wanted[member]]
    target: Target = {member: set() for member in wanted}
    if not partitions:
        return target
    members_per_partition = -(-len(members) // len(partitions))
    partitions_per_member = -(-len(partitions) * members_per_partition // len(members))
    holders = dict.fromkeys(partitions, 0)
    for member in members:
        for partition in sorted(current.get(member, set()) & wanted[member]):
            if len(target[member]) < partitions_per_member and holders[partition] < members_per_partition:
                target[member].add(partition)
                holders[partition] += 1
    for member in members:
        if not target[member]:
            partition = min(sorted(wanted[member]), key=holders.__getitem__)
            target[member].add(partition)
            holders[partition] += 1
    for partition in partitions:
        if not holders[partition]:
            subscribers = [member for member in members if partition in wanted[member]]
            target[min(subscribers, key=lambda each: len(target[each]))].add(partition)
    return target
