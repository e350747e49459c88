"""The assignors of consumer groups: every partition once, evenly, and with few moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given, strategies

from kshare.broker.assigned_groups import Target
from kshare.broker.cluster import TopicIdPartition
from kshare.broker.consumer_groups.assignors import ASSIGNORS, AssignedMember, assign_ranges, uniform

A, B, C = (bytes([number]) * 16 for number in range(3))


def member(name: str, *topics: bytes, has: set[TopicIdPartition] | None = None) -> AssignedMember:
    return AssignedMember(name, None, frozenset(topics), frozenset(has or ()))


def of(topic: bytes, *indexes: int) -> set[TopicIdPartition]:
    return {(topic, index) for index in indexes}


def test_uniform_leaves_members_what_they_have() -> None:
    everything = of(A, 0, 1, 2, 3, 4, 5)
    target = uniform([member("one", A, has=everything), member("two", A)], {A: 6})
    assert target == {"one": of(A, 0, 1, 2), "two": of(A, 3, 4, 5)}


def test_uniform_balances_over_all_topics() -> None:
    members = [member(name, A, B) for name in ("one", "two", "three")]
    target = uniform(members, {A: 2, B: 5})
    assert sorted(map(len, target.values())) == [2, 2, 3]


def test_uniform_respects_different_subscriptions() -> None:
    members = [member("one", A, has=of(A, 0, 1)), member("two", A, B), member("three", B)]
    target = uniform(members, {A: 2, B: 4})
    assert target["one"] == of(A, 0, 1)
    assert {topic for topic, _ in target["two"] | target["three"]} == {B}
    assert sorted(map(len, target.values())) == [2, 2, 2]


def test_uniform_balances_what_members_already_have() -> None:
    members = [member("one", A, B, has=of(A, 0, 1, 2, 3)), member("two", A)]
    target = uniform(members, {A: 4, B: 0})
    assert {name: len(found) for name, found in target.items()} == {"one": 2, "two": 2}


def test_topics_that_are_gone_are_dropped() -> None:
    assert uniform([member("one", A, has=of(B, 0) | of(A, 0, 7))], {A: 1}) == {"one": of(A, 0)}


def test_ranges_of_topics_with_equally_many_partitions_are_alike() -> None:
    target = assign_ranges([member("two", A, B), member("one", A, B)], {A: 5, B: 5})
    assert target == {"one": of(A, 0, 1, 2) | of(B, 0, 1, 2), "two": of(A, 3, 4) | of(B, 3, 4)}


def test_static_members_have_the_first_ranges() -> None:
    members = [member("a", A), AssignedMember("b", "instance", frozenset({A}), frozenset())]
    assert assign_ranges(members, {A: 3}) == {"b": of(A, 0, 1), "a": of(A, 2)}


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
def test_no_topics_and_no_partitions(
    assign: Callable[[Sequence[AssignedMember], Mapping[bytes, int]], Target],
) -> None:
    assert assign([member("one"), member("two", A)], {}) == {"one": set(), "two": set()}
    assert assign([], {A: 1}) == {}


subscriptions = strategies.dictionaries(
    strategies.sampled_from(["one", "two", "three", "four", "five"]),
    strategies.sets(strategies.sampled_from([A, B, C])),
    min_size=1,
)


@pytest.mark.lengthy
@given(
    subscriptions,
    subscriptions,
    strategies.fixed_dictionaries(dict.fromkeys([A, B, C], strategies.integers(0, 7))),
    strategies.sampled_from(sorted(ASSIGNORS)),
)
def test_every_subscribed_partition_is_assigned_once(
    first: dict[str, set[bytes]], then: dict[str, set[bytes]], counts: dict[bytes, int], assignor: str
) -> None:
    target: Target = {}
    for wanted in (first, then):
        members = [
            AssignedMember(name, None, frozenset(topics), frozenset(target.get(name, ())))
            for name, topics in wanted.items()
        ]
        target = ASSIGNORS[assignor](members, counts)
        topics = set[bytes]().union(*wanted.values())
        expected = sorted((topic, index) for topic in topics for index in range(counts[topic]))
        assert sorted(each for partitions in target.values() for each in partitions) == expected
        assert all(topic in wanted[name] for name, found in target.items() for topic, _ in found)
        if len(set(map(frozenset, wanted.values()))) == 1 and assignor == "uniform":
            numbers = [len(target[name]) for name in wanted]
            assert max(numbers) - min(numbers) <= 1
            repeated = [
                AssignedMember(name, None, frozenset(topics), frozenset(target[name]))
                for name, topics in wanted.items()
            ]
            assert uniform(repeated, counts) == target
