"""Which replica is read: the leader's word, for a while, and never against experience."""

from __future__ import annotations

from kshare.admin.read_replicas import AVOIDED_S, PREFERRED_S, ReadReplicas

HERE, THERE = (b"one", 0), (b"one", 1)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_follower_that_the_leader_names_is_read_for_five_minutes() -> None:
    clock = Clock()
    replicas = ReadReplicas("east", clock)
    assert (replicas.follower(HERE), replicas.rack(HERE)) == (None, "east")
    replicas.prefer(HERE, 3)
    assert (replicas.follower(HERE), replicas.follower(THERE)) == (3, None)
    clock.now += PREFERRED_S - 1
    assert replicas.follower(HERE) == 3
    clock.now += 1
    assert (replicas.follower(HERE), replicas.rack(HERE)) == (None, "east")


def test_a_follower_that_failed_is_avoided_for_a_while() -> None:
    clock = Clock()
    replicas = ReadReplicas("east", clock)
    replicas.prefer(HERE, 3)
    replicas.avoid_follower(HERE)
    assert (replicas.follower(HERE), replicas.rack(HERE), replicas.rack(THERE)) == (None, "", "east")
    clock.now += AVOIDED_S
    assert replicas.rack(HERE) == "east"


def test_without_a_rack_none_is_told() -> None:
    assert ReadReplicas(None, Clock()).rack(HERE) == ""
