"""The simple assignor: no member idle, no partition unassigned, and no unnecessary moves."""

from __future__ import annotations

from hypothesis import given, strategies

from kshare.broker.cluster import TopicIdPartition
from kshare.broker.share_groups.assignor import assign

ALL = [(bytes([topic]) * 16, index) for topic in range(3) for index in range(3)]


def _members(counts: dict[str, int]) -> dict[str, set[TopicIdPartition]]:
    return {member: set(ALL[:count]) for member, count in counts.items()}


def test_partitions_are_divided_among_few_members() -> None:
    target = assign(_members({"a": 4, "b": 4}), {"a": set(ALL[:4])})
    assert {len(partitions) for partitions in target.values()} == {2}
    assert target["a"] | target["b"] == set(ALL[:4])
    assert target["a"] <= set(ALL[:4])


def test_many_members_share_partitions() -> None:
    target = assign(_members(dict.fromkeys("abcde", 2)), {})
    assert {len(partitions) for partitions in target.values()} == {1}


def test_members_keep_their_partitions() -> None:
    wanted = _members({"a": 6, "b": 6, "c": 6})
    before = assign(wanted, {})
    assert assign(wanted, before) == before


@given(
    strategies.dictionaries(
        strategies.text("abcdef", min_size=1, max_size=2),
        strategies.sets(strategies.sampled_from(ALL)),
        max_size=7,
    ),
    strategies.data(),
)
def test_every_subscribed_member_gets_partitions_and_every_partition_is_assigned(
    wanted: dict[str, set[TopicIdPartition]], data: strategies.DataObject
) -> None:
    current = {
        member: data.draw(strategies.sets(strategies.sampled_from(ALL)), label=member) for member in wanted
    }
    target = assign(wanted, current)
    assert target.keys() == wanted.keys()
    assert all(target[member] <= wanted[member] for member in wanted)
    assert all(bool(target[member]) == bool(wanted[member]) for member in wanted)
    assert set[TopicIdPartition]().union(*target.values()) == set[TopicIdPartition]().union(*wanted.values())
