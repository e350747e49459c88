"""Admin requests for the offsets of share groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kshare.protocol.messages import (
    AlterShareGroupOffsetsRequest,
    CreatePartitionsRequest,
    DeleteGroupsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
)
from kshare.protocol.messages import alter_share_group_offsets_request as alter_rows
from kshare.protocol.messages import delete_share_group_offsets_request as delete_rows
from kshare.protocol.messages import describe_share_group_offsets_request as describe_rows
from kshare.protocol.messages.create_partitions_request import CreatePartitionsTopic
from tests.integration.conversation.group_scripts import describe
from tests.integration.conversation.sharer import ACCEPT, REJECT, RELEASE, Sharer
from tests.integration.conversation.talk import Talk


def show(talk: Talk, group: str, topics: dict[str, Sequence[int]] | None = None) -> Any:
    rows = [
        describe_rows.DescribeShareGroupOffsetsRequestTopic(topic, list(partitions))
        for topic, partitions in (topics or {}).items()
    ]
    asked = describe_rows.DescribeShareGroupOffsetsRequestGroup(group, None if topics is None else rows)
    return talk.ask(DescribeShareGroupOffsetsRequest([asked]))


def alter(talk: Talk, group: str, topics: dict[str, dict[int, int]]) -> Any:
    rows = [
        alter_rows.AlterShareGroupOffsetsRequestTopic(
            topic,
            [alter_rows.AlterShareGroupOffsetsRequestPartition(*row) for row in partitions.items()],
        )
        for topic, partitions in topics.items()
    ]
    return talk.ask(AlterShareGroupOffsetsRequest(group, rows))


def delete(talk: Talk, group: str, *topics: str) -> Any:
    rows = [delete_rows.DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics]
    return talk.ask(DeleteShareGroupOffsetsRequest(group, rows))


def unknown_groups_and_topics(talk: Talk) -> None:
    topic, group, missing = talk.topic("orders"), talk.group("g"), talk.name("missing")
    show(talk, group)
    show(talk, group, {topic: [0]})
    show(talk, "", {topic: [0]})
    show(talk, "")
    show(talk, group, {missing: [0]})
    show(talk, group, {})
    talk.ask(DescribeShareGroupOffsetsRequest([]))
    alter(talk, "", {topic: {0: 1}})
    delete(talk, group, topic)
    delete(talk, "", topic)
    alter(talk, group, {missing: {0: 1}})
    alter(talk, group, {})
    delete(talk, group)
    describe(talk, group)


def altering_makes_a_group(talk: Talk) -> None:
    topic, group = talk.topic("orders", 2), talk.group("g")
    talk.produce(topic, [10])
    alter(talk, group, {topic: {0: 4}})
    describe(talk, group)
    show(talk, group)
    alter(talk, group, {topic: {0: 5, 1: 0, 2: 7}})
    show(talk, group, {topic: [0, 1]})
    alter(talk, group, {topic: {0: 99}})
    alter(talk, group, {topic: {0: -1}})
    show(talk, group)
    alter(talk, group, {topic: {}})
    alter(talk, group, {topic: {0: 6}, talk.name("missing"): {0: 1}})
    one = Sharer(talk, group, topic, "one")
    one.join(2)
    one.fetch(wait_ms=5000)
    alter(talk, group, {topic: {0: 1}})
    delete(talk, group, topic)
    show(talk, group)
    one.leave()
    delete(talk, group, topic, talk.name("missing"))
    show(talk, group)
    delete(talk, group, topic)
    describe(talk, group)
    talk.ask(DeleteGroupsRequest([group]))


def a_start_moves(talk: Talk) -> None:
    topic, group = talk.topic("orders", 2), talk.group("g")
    talk.produce(topic, [10, 10])
    one = Sharer(talk, group, topic, "one")
    show(talk, group)
    one.join(2)
    show(talk, group)
    one.fetch(wait_ms=5000)
    show(talk, group)
    one.acknowledge((0, 4, ACCEPT))
    show(talk, group)
    one.acknowledge((10, 14, ACCEPT))
    show(talk, group)
    one.acknowledge((5, 5, REJECT))
    show(talk, group)
    one.acknowledge((6, 6, RELEASE))
    show(talk, group)
    one.acknowledge((7, 9, ACCEPT), (15, 19, RELEASE))
    show(talk, group)
    one.leave()
    show(talk, group)
    describe(talk, group)


def offsets_are_reset(talk: Talk) -> None:
    topic, group = talk.topic("orders"), talk.group("g")
    talk.produce(topic, [10, 10])
    one = Sharer(talk, group, topic, "one")
    one.join()
    one.fetch(wait_ms=5000)
    one.acknowledge((0, 9, ACCEPT), (10, 11, RELEASE))
    one.fetch(-1)
    one.leave()
    show(talk, group)
    alter(talk, group, {topic: {0: 3}})
    show(talk, group)
    describe(talk, group)
    delete(talk, group, topic)
    show(talk, group)


def resets(talk: Talk) -> None:
    """`share.auto.offset.reset`. With `latest`, a partition that is added later is read from its start."""
    topic = talk.topic("orders", 1)
    talk.produce(topic, [10])
    for label, reset in (
        ("late", "latest"),
        ("early", "earliest"),
        ("long", "by_duration:PT1H"),
        ("short", "by_duration:PT0.01S"),
    ):
        group = talk.group(label, {"share.auto.offset.reset": reset})
        one = Sharer(talk, group, topic, label + "-member")
        one.join()
        one.fetch(wait_ms=1500)
        show(talk, group)
        one.leave()
    group = talk.group("grown", {"share.auto.offset.reset": "latest"})
    one = Sharer(talk, group, topic, "one")
    one.join()
    response = talk.quietly(CreatePartitionsRequest([CreatePartitionsTopic(topic, 2, None)], 10_000))
    assert not response.results[0].error_code
    talk.wait_for(
        lambda: describe_request(group),
        lambda a: (
            (len(a.groups[0].topics) == 1 and len(a.groups[0].topics[0].partitions) == 2)
            or bool(talk.quietly(one.heartbeat(one.member_epoch)) and False)
        ),
    )
    talk.produce(topic, [10], partition=1)
    one.fetch(partitions=[0, 1], wait_ms=1500)
    show(talk, group)


def describe_request(group: str) -> DescribeShareGroupOffsetsRequest:
    return DescribeShareGroupOffsetsRequest(
        [describe_rows.DescribeShareGroupOffsetsRequestGroup(group, None)]
    )


SCRIPTS = [unknown_groups_and_topics, altering_makes_a_group, a_start_moves, offsets_are_reset, resets]
