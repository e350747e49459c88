"""Requests about groups of the consumer protocol of KIP-848 beside those of other kinds: offsets, lists, deletion."""

from __future__ import annotations

from typing import Any

from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    TxnOffsetCommitRequest,
)
from kshare.protocol.messages.offset_commit_request import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshare.protocol.messages.offset_delete_request import (
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kshare.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kshare.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.integration.conversation import classic_scripts
from tests.integration.conversation.grouped import LEAVE_FOR_NOW, Grouped, describe, new_group
from tests.integration.conversation.sharer import Sharer
from tests.integration.conversation.talk import Talk

FOR_MEMBERS_SINCE, OLD = 9, 8
"""Versions of OffsetCommit."""
BY_NAME = 5
"""A version of TxnOffsetCommit."""


def commit(
    talk: Talk,
    member: Grouped,
    epoch: int,
    *partitions: int,
    topic: str = "",
    version: int | None = None,
    **fields: Any,
) -> None:
    name = topic or member.topics[0]
    rows = [OffsetCommitRequestPartition(index, 5) for index in partitions or (0,)]
    values = {"member_id": member.id, "group_instance_id": member.instance} | fields
    request = OffsetCommitRequest(
        member.group,
        epoch,
        topics=[OffsetCommitRequestTopic(name, talk.topic_ids.get(name, b"?" * 16), rows)],
        **values,
    )
    response: Any = talk.quietly(request, version=version)
    talk.note(f"commit {epoch}", [row.error_code for row in response.topics[0].partitions])


def fetch(talk: Talk, member: Grouped, epoch: int, member_id: str | None, version: int | None = None) -> None:
    topic = member.topics[0]
    wanted = [OffsetFetchRequestTopics(topic, talk.topic_ids[topic], [0, 1])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(member.group, member_id, epoch, wanted)])
    response: Any = talk.quietly(request, version=version)
    found = response.groups[0]
    rows = [(row.committed_offset, row.error_code) for topic in found.topics for row in topic.partitions]
    talk.note(f"fetch {epoch}", [found.error_code, rows])


def members_commit(talk: Talk) -> None:
    topic, group = talk.topic("orders", 2), new_group(talk)
    one, two, stranger = (Grouped(talk, group, name, [topic]) for name in ("one", "two", "stranger"))
    commit(talk, one, 1)
    commit(talk, one, 0)
    fetch(talk, one, 1, one.id)
    one.join()
    commit(talk, one, one.epoch)
    commit(talk, one, one.epoch, version=FOR_MEMBERS_SINCE)
    commit(talk, one, one.epoch, version=OLD)
    commit(talk, one, one.epoch + 1)
    commit(talk, one, one.epoch - 1)
    commit(talk, one, -1)
    commit(talk, one, -1, member_id="")
    commit(talk, stranger, one.epoch)
    fetch(talk, one, one.epoch, one.id)
    fetch(talk, one, one.epoch, one.id, FOR_MEMBERS_SINCE)
    fetch(talk, one, one.epoch + 1, one.id)
    fetch(talk, one, one.epoch - 1, one.id)
    fetch(talk, one, -1, None)
    fetch(talk, one, -1, one.id)
    fetch(talk, one, one.epoch, stranger.id)
    two.join()
    old = one.epoch
    one.beat()
    commit(talk, one, one.epoch, 0, 1)
    one.beat(one.owned)
    commit(talk, one, old, 0)
    commit(talk, one, old, 1)
    commit(talk, one, old, 0, 1)
    commit(talk, one, one.epoch, 0, 1)
    fetch(talk, one, old, one.id)
    two.until_assigned(1)
    commit(talk, two, two.epoch, 0, 1)
    commit(talk, two, two.epoch - 1, 0, 1)
    one.leave()
    two.leave()
    commit(talk, one, one.epoch)
    commit(talk, one, -1)
    commit(talk, one, -1, member_id="")
    fetch(talk, one, one.epoch, one.id)
    fetch(talk, one, -1, None)


def members_commit_in_transactions(talk: Talk) -> None:
    topic, group, name = talk.topic("orders", 2), new_group(talk), talk.name("transaction")
    producer = talk.transactional_producer(name)
    one, two = (Grouped(talk, group, label, [topic]) for label in ("one", "two"))

    def commit_later(
        epoch: int, *partitions: int, member_id: str = one.id, version: int | None = None
    ) -> None:
        rows = [TxnOffsetCommitRequestPartition(index, 5) for index in partitions or (0,)]
        request = TxnOffsetCommitRequest(
            name,
            group,
            producer.producer_id,
            producer.producer_epoch,
            epoch,
            member_id,
            topics=[TxnOffsetCommitRequestTopic(topic, talk.topic_ids[topic], rows)],
        )
        response: Any = talk.wait_for(
            lambda: request,
            lambda response: response.topics[0].partitions[0].error_code != ErrorCode.CONCURRENT_TRANSACTIONS,
            version,
        )
        talk.note(f"commit {epoch}", [row.error_code for row in response.topics[0].partitions])

    one.join()
    for version in (talk.newest(TxnOffsetCommitRequest), BY_NAME):
        for epoch in (one.epoch, one.epoch + 1, one.epoch - 1, -1, LEAVE_FOR_NOW):
            commit_later(epoch, version=version)
        commit_later(-1, member_id="", version=version)
        commit_later(one.epoch, member_id=two.id, version=version)
    two.join()
    old = one.epoch
    one.beat()
    one.beat(one.owned)
    commit_later(old, 0)
    commit_later(old, 1)
    commit_later(old, 0, 1)
    one.leave()
    two.leave()
    commit_later(-1, member_id="")
    commit_later(-1)
    commit_later(2)


def static_members_commit(talk: Talk) -> None:
    topic, group = talk.topic("orders", 2), new_group(talk)
    one, again = (Grouped(talk, group, name, [topic], "instance") for name in ("one", "again"))
    one.join()
    commit(talk, one, one.epoch)
    commit(talk, one, one.epoch, group_instance_id=None)
    commit(talk, one, one.epoch, group_instance_id="other")
    one.leave(LEAVE_FOR_NOW)
    commit(talk, one, one.epoch)
    commit(talk, one, LEAVE_FOR_NOW)
    fetch(talk, one, -1, None)
    again.join()
    commit(talk, one, one.epoch)
    commit(talk, again, again.epoch)


_WITHOUT_TYPES = 4
"""A version of ListGroups."""
_FILTERS: tuple[tuple[list[str], list[str]], ...] = (
    ([], []),
    ([], ["Consumer"]),
    ([], ["consumer", "share"]),
    (["stable"], []),
    (["Empty"], ["consumer"]),
    (["Assigning", "Reconciling"], []),
    ([], ["classic"]),
)
"""States and kinds."""


def listed(talk: Talk, *groups: str) -> None:
    found = []
    for states, kinds in _FILTERS:
        response = talk.quietly(ListGroupsRequest(states, kinds))
        found += sorted(
            [states, kinds, row.group_id, row.protocol_type, row.group_state, row.group_type]
            for row in response.groups
            if row.group_id in groups
        )
    talk.note("listed", found)
    older = talk.quietly(ListGroupsRequest(), version=_WITHOUT_TYPES)
    talk.note(
        "listed",
        sorted([row.group_id, row.group_state] for row in older.groups if row.group_id in groups),
    )


def groups_are_listed_and_described(talk: Talk) -> None:
    topic, group, classic, shared = (
        talk.topic("orders", 4),
        new_group(talk),
        classic_scripts.new_group(talk, "classic"),
        talk.group("shared"),
    )
    sharer = Sharer(talk, shared, topic)
    sharer.join()
    member = classic_scripts.Member(talk, classic, "member")
    member.join(b"")
    one, two = (Grouped(talk, group, name, [topic]) for name in ("one", "two"))
    listed(talk, group)
    one.join()
    listed(talk, group, classic, shared)
    two.join()
    listed(talk, group)
    one.beat()
    one.beat(one.owned)
    two.until_assigned(2)
    listed(talk, group)
    talk.ask(DescribeGroupsRequest([group, classic]))
    describe(talk, group, classic, shared, talk.name("none"))
    talk.ask(ShareGroupDescribeRequest([group]))
    described: Any = talk.quietly(DescribeGroupsRequest([group]), version=5).groups[0]
    talk.note("described", [described.error_code, described.group_state, described.protocol_type])
    older: Any = talk.quietly(ConsumerGroupDescribeRequest([group], True), version=0).groups[0]
    talk.note("described", [older.error_code, older.authorized_operations, len(older.members)])
    talk.ask(Grouped(talk, shared, "other", [topic]).full_request(0))
    talk.ask(Grouped(talk, shared, "other", [topic]).request(1))
    talk.ask(Grouped(talk, shared, "other", [topic]).request(-1))
    talk.ask(Grouped(talk, classic, "other", [topic]).request(1))
    talk.ask(Grouped(talk, classic, "other", [topic]).request(-1))
    talk.ask(ShareGroupHeartbeatRequest(group, one.id, 0, None, [topic]))
    talk.ask(ShareGroupHeartbeatRequest(group, one.id, 1, None, None))
    one.leave()
    two.leave()
    listed(talk, group)
    talk.ask(DescribeGroupsRequest([group]))
    sharer.leave()
    member.leave()


def groups_are_deleted(talk: Talk) -> None:
    topic, other, group = talk.topic("orders", 2), talk.topic("parcels", 2), new_group(talk)
    one = Grouped(talk, group, "one", [topic])
    one.join()
    commit(talk, one, one.epoch)
    commit(talk, one, one.epoch, topic=other)
    delete_offsets(talk, group, topic, other, talk.name("none"))
    fetch(talk, one, -1, None)
    talk.ask(DeleteGroupsRequest([group]))
    one.leave()
    delete_offsets(talk, group, topic)
    fetch(talk, one, -1, None)
    describe(talk, group)
    talk.ask(DeleteGroupsRequest([group]))
    talk.ask(DeleteGroupsRequest([group]))
    describe(talk, group)
    delete_offsets(talk, group, topic)
    one.beat()
    one.leave()
    one.join()
    describe(talk, group)


def delete_offsets(talk: Talk, group: str, *topics: str) -> None:
    rows = [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(0)]) for topic in topics]
    talk.ask(OffsetDeleteRequest(group, rows))


def empty_groups_change_their_kind(talk: Talk) -> None:
    topic, group = talk.topic("orders", 2), new_group(talk)
    one = Grouped(talk, group, "one", [topic])
    outside = Grouped(talk, group, "outside", [topic])
    commit(talk, outside, -1, member_id="")  # creates a classic group without members
    listed(talk, group)
    describe(talk, group)
    one.join()
    listed(talk, group)
    fetch(talk, one, -1, None)
    commit(talk, one, one.epoch, 1)
    one.leave()
    listed(talk, group)
    member = classic_scripts.Member(talk, group, "member")
    member.join(b"")
    member.sync(everything=member.id)
    listed(talk, group)
    fetch(talk, one, -1, None)
    describe(talk, group)
    talk.ask(one.request(1))
    member.leave()
    listed(talk, group)
    one.join()
    listed(talk, group)
    describe(talk, group)
    fetch(talk, one, -1, None)


SCRIPTS = [
    members_commit,
    members_commit_in_transactions,
    static_members_commit,
    groups_are_listed_and_described,
    groups_are_deleted,
    empty_groups_change_their_kind,
]
