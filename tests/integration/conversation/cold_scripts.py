"""Share-partitions that weren't fetched before: the broker responds with what it has while it loads them."""

from __future__ import annotations

from tests.integration.conversation.offset_scripts import show
from tests.integration.conversation.session_scripts import scene
from tests.integration.conversation.sharer import ACCEPT
from tests.integration.conversation.talk import Talk


def two_cold_partitions(talk: Talk) -> None:
    """The first fetch returns the partition that was loaded first, the second fetch the other."""
    one = scene(talk, 50, partitions=2)
    talk.produce(one.topic, [50], partition=1)
    show(talk, one.group)
    one.fetch(0, partitions=[0, 1], wait_ms=5000)
    one.fetch(wait_ms=5000)
    one.fetch(wait_ms=100)
    show(talk, one.group)
    one.acknowledge((0, 9, ACCEPT), partition=1)
    show(talk, one.group)
    one.fetch(-1)
    show(talk, one.group)


def a_session_that_saw_one_of_two(talk: Talk) -> None:
    """The start offset of a partition that was loaded, but not fetched from, is unknown."""
    one = scene(talk, 50, partitions=2)
    talk.produce(one.topic, [50], partition=1)
    one.fetch(0, partitions=[0, 1], wait_ms=5000)
    one.acknowledge((0, 49, ACCEPT))
    one.fetch(-1)
    show(talk, one.group)
    show(talk, one.group, {one.topic: [1]})


def one_cold_partition_has_records(talk: Talk) -> None:
    """The partition that is loaded first is empty: the fetch waits for the other."""
    one = scene(talk, partitions=2)
    talk.produce(one.topic, [50], partition=1)
    one.fetch(0, partitions=[0, 1], wait_ms=5000)
    one.fetch(wait_ms=100)
    one.fetch(-1)
    show(talk, one.group)


def cold_ones_join_a_session(talk: Talk) -> None:
    """The fetch doesn't wait for them while a loaded one has records."""
    one = scene(talk, 50, partitions=3)
    for partition in (1, 2):
        talk.produce(one.topic, [50], partition)
    one.fetch(0, wait_ms=5000)
    talk.produce(one.topic, [50])
    one.fetch(partitions=[1, 2], wait_ms=5000)
    one.gather(100)  # there is no way to tell when both are loaded: they arrive in one response or in two
    one.fetch(wait_ms=100)


def cold_partitions_and_a_fetch_of_no_records(talk: Talk) -> None:
    """The partitions aren't loaded for such a fetch, however often it is repeated."""
    one = scene(talk, 50, partitions=2)
    talk.produce(one.topic, [50], partition=1)
    for _ in range(3):
        one.fetch(partitions=[0, 1] if one.epoch == 0 else None, most=0, wait_ms=100)
    one.fetch(wait_ms=5000)
    one.fetch(wait_ms=5000)


SCRIPTS = [
    two_cold_partitions,
    a_session_that_saw_one_of_two,
    one_cold_partition_has_records,
    cold_ones_join_a_session,
    cold_partitions_and_a_fetch_of_no_records,
]
