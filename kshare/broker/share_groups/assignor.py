"""The simple assignor: every member gets partitions of the topics it asked for, and every partition members.

With fewer members than partitions each partition goes to one member; with more, members share partitions, and none is
without. What a member has it keeps, as far as an even share allows.
"""

from __future__ import annotations

from collections.abc import Mapping

TopicIdPartition = tuple[bytes, int]
"""Topic id and index."""


def assign(
    wanted: Mapping[str, set[TopicIdPartition]], current: Mapping[str, set[TopicIdPartition]]
) -> dict[str, set[TopicIdPartition]]:
    """For each member, by what each may have and what each has now."""
    partitions = sorted(set[TopicIdPartition]().union(*wanted.values()))
    members = [member for member in sorted(wanted) if wanted[member]]
    target: dict[str, set[TopicIdPartition]] = {member: set() for member in wanted}
    if not partitions:
        return target
    sharers = -(-len(members) // len(partitions))
    share = -(-len(partitions) * sharers // len(members))
    holders = dict.fromkeys(partitions, 0)
    for member in members:
        for partition in sorted(current.get(member, set()) & wanted[member]):
            if len(target[member]) < share and holders[partition] < sharers:
                target[member].add(partition)
                holders[partition] += 1
    for member in members:
        if not target[member]:
            partition = min(sorted(wanted[member]), key=holders.__getitem__)
            target[member].add(partition)
            holders[partition] += 1
    for partition in partitions:
        if not holders[partition]:
            able = [member for member in members if partition in wanted[member]]
            target[min(able, key=lambda each: len(target[each]))].add(partition)
    return target
