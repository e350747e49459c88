"""The server-side assignors: `uniform` balances the number of partitions, `range` gives out ranges of each topic.

`uniform` lets members keep what they have, as far as balance allows. `range` starts from scratch each time, in the
order of instance ids and member ids, so that topics with equally many partitions are distributed alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kshare.broker.assigned_groups import Target
from kshare.broker.cluster import TopicIdPartition


@dataclass(slots=True, frozen=True)
class AssignedMember:
    """A member as assignors see it."""

    id: str
    instance: str | None
    topics: frozenset[bytes]
    """The ids of existing topics that it has subscribed to."""
    current: frozenset[TopicIdPartition]
    """Its last target assignment."""


def uniform(members: Sequence[AssignedMember], counts: Mapping[bytes, int]) -> Target:
    """`counts`: the number of partitions of each subscribed topic."""
    if len({member.topics for member in members}) <= 1:
        return _uniform_for_alike(members, counts)
    return _uniform_for_different(members, counts)


def assign_ranges(members: Sequence[AssignedMember], counts: Mapping[bytes, int]) -> Target:
    """Each member gets a range of each of its topics. The first members get one more if it doesn't come out even."""
    in_order = sorted(members, key=lambda each: (each.instance is None, each.instance or "", each.id))
    target: Target = {member.id: set() for member in members}
    for topic_id, count in counts.items():
        subscribers = [member for member in in_order if topic_id in member.topics]
        start = 0
        for number, member in enumerate(subscribers):
            end = start + count // len(subscribers) + (number < count % len(subscribers))
            target[member.id] |= {(topic_id, index) for index in range(start, end)}
            start = end
    return target


ASSIGNORS: dict[str, Callable[[Sequence[AssignedMember], Mapping[bytes, int]], Target]] = {
    "uniform": uniform,
    "range": assign_ranges,
}


def _uniform_for_alike(members: Sequence[AssignedMember], counts: Mapping[bytes, int]) -> Target:
    """All members have the same topics: each keeps what it has up to its quota, and is filled up to it."""
    partitions = _all_partitions(members, counts)
    target: Target = {}
    free = dict.fromkeys(partitions)
    quotas = {}
    for number, member in enumerate(members):
        quota = len(partitions) // len(members) + (number < len(partitions) % len(members))
        kept = sorted(member.current & free.keys())[:quota]
        target[member.id] = set(kept)
        quotas[member.id] = quota
        for partition in kept:
            del free[partition]
    rest = iter(free)
    for member_id, quota in quotas.items():
        while len(target[member_id]) < quota:
            target[member_id].add(next(rest))
    return target


def _uniform_for_different(members: Sequence[AssignedMember], counts: Mapping[bytes, int]) -> Target:
    """Members have different topics: keep everything, assign the rest to those with least, then balance each topic."""
    partitions = _all_partitions(members, counts)
    subscribers = {
        topic_id: [member.id for member in members if topic_id in member.topics]
        for topic_id in {topic_id for topic_id, _ in partitions}
    }
    target: Target = {
        member.id: {each for each in member.current & partitions.keys() if each[0] in member.topics}
        for member in members
    }
    assigned = set[TopicIdPartition]().union(*target.values())
    # Topics with few subscribers first: nobody else can have their partitions.
    topics = sorted(
        subscribers, key=lambda each: (-counts[each] / len(subscribers[each]), len(subscribers[each]), each)
    )
    for topic_id in topics:
        for index in range(counts[topic_id]):
            if (topic_id, index) not in assigned:
                least = min(subscribers[topic_id], key=lambda each: len(target[each]))
                target[least].add((topic_id, index))
    while any(_move_one(topic_id, subscribers[topic_id], target) for topic_id in topics):
        pass
    return target


def _move_one(topic_id: bytes, subscribers: Sequence[str], target: Target) -> bool:
    """Move a partition from the member with most to the one with least, if that makes them more equal."""
    owners = [each for each in subscribers if any(topic == topic_id for topic, _ in target[each])]
    most = max(owners, key=lambda each: len(target[each]))
    least = min(subscribers, key=lambda each: len(target[each]))
    if len(target[most]) - len(target[least]) < 2:
        return False
    partition = max(each for each in target[most] if each[0] == topic_id)
    target[most].remove(partition)
    target[least].add(partition)
    return True


def _all_partitions(
    members: Sequence[AssignedMember], counts: Mapping[bytes, int]
) -> dict[TopicIdPartition, None]:
    """All partitions that somebody has subscribed to, in order."""
    topics = frozenset[bytes]().union(*(member.topics for member in members))
    return {
        (topic_id, index): None
        for topic_id in sorted(topics & counts.keys())
        for index in range(counts[topic_id])
    }
