"""Requests of consumer groups of KIP-848: joining, reconciling, fencing, static members, subscriptions."""

from __future__ import annotations

import time
from typing import Any

from kshare.protocol.messages import (
    ConsumerGroupDescribeRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    OffsetCommitRequest,
)
from kshare.protocol.messages.create_partitions_request import CreatePartitionsTopic
from kshare.protocol.messages.create_topics_request import CreatableTopic
from kshare.protocol.messages.delete_topics_request import DeleteTopicState
from tests.integration.conversation.grouped import (
    KEEPS_INTERVAL_SINCE,
    LAG_S,
    LEAVE,
    LEAVE_FOR_NOW,
    Grouped,
    describe,
    new_group,
)
from tests.integration.conversation.talk import Talk

HEARTBEATS_WITHOUT_REGEX = 0
QUICK = {"consumer.session.timeout.ms": "1000", "consumer.heartbeat.interval.ms": "500"}


def invalid_heartbeats(talk: Talk) -> None:
    topic, group = talk.topic("orders"), new_group(talk)
    one, nowhere, blank = (Grouped(talk, name, "one", [topic]) for name in (group, "", "  "))
    nowhere.join()
    blank.join()
    for member_id in ("", " "):
        one.join(member_id=member_id)
        one.ask(1, member_id=member_id)
        one.ask(LEAVE, member_id=member_id)
    one.join(instance_id="")
    one.join(rack_id="")
    one.join(rack_id="  ")
    one.join(rebalance_timeout_ms=-1)
    one.join(topic_partitions=None)
    one.join(topic_partitions=one.request(0, {topic: [0]}).topic_partitions)
    one.join(subscribed_topic_names=None)
    one.join(subscribed_topic_names=[])
    one.join(subscribed_topic_names=None, subscribed_topic_regex="")
    one.join(subscribed_topic_names=None, rebalance_timeout_ms=-1, topic_partitions=None)
    one.join(server_assignor="other")
    one.join(server_assignor="")
    for epoch in (LEAVE_FOR_NOW, -3, 1, LEAVE):
        one.ask(epoch)
    one.ask(1, instance_id="instance")
    one.ask(LEAVE_FOR_NOW, instance_id="instance")
    describe(talk, group, "")
    described = talk.quietly(one.full_request(0, group_id=""), version=HEARTBEATS_WITHOUT_REGEX)
    talk.note("before regular expressions", [described.error_code, described.error_message])


def the_broker_chooses_member_ids_in_v0(talk: Talk) -> None:
    topic, group = talk.topic("orders", 2), new_group(talk)
    one = Grouped(talk, group, "one", [topic])
    response = talk.quietly(one.full_request(0, member_id=""), version=HEARTBEATS_WITHOUT_REGEX)
    talk.note("joined", [response.error_code, response.member_epoch, len(response.member_id or "")])
    talk.call(response.member_id or "", "chosen")
    describe(talk, group)


def a_member_alone(talk: Talk) -> None:
    topic, group = talk.topic("orders", 3), new_group(talk)
    one, stranger = (Grouped(talk, group, name, [topic]) for name in ("one", "stranger"))
    one.join(rack_id="here")
    describe(talk, group)
    one.beat()
    one.beat(one.owned)
    describe(talk, group)
    talk.ask(one.full_request(one.epoch, one.owned))
    one.ask(one.epoch + 1)
    one.ask(one.epoch - 1)
    one.ask(max(one.epoch - 2, 1), one.owned)
    one.beat(rack_id="there")
    one.beat(server_assignor="range")
    describe(talk, group)
    one.beat(subscribed_topic_names=[topic])
    stranger.ask(1)
    stranger.ask(LEAVE)
    stranger.ask(1, instance_id="instance")
    one.ask(one.epoch, instance_id="instance")
    one.join()
    one.leave()
    one.ask(one.epoch)
    one.leave()
    describe(talk, group)
    one.join()
    describe(talk, group)


def partitions_are_handed_over(talk: Talk) -> None:
    topic, group = talk.topic("orders", 6), new_group(talk)
    one, two, three = (Grouped(talk, group, name, [topic]) for name in ("one", "two", "three"))
    one.join()
    one.beat(one.owned)
    all_of_them = one.owned
    two.join()
    describe(talk, group)
    two.beat({})
    one.beat()  # told to revoke
    describe(talk, group)
    one.beat()
    one.beat(all_of_them)
    two.beat()
    two.beat({})
    one.beat(one.owned)  # has revoked
    describe(talk, group)
    two.beat()
    describe(talk, group)
    two.beat(two.owned)
    three.join()
    one.beat()
    two.beat()
    two.beat(two.owned)
    three.beat()
    one.beat(one.owned)
    three.beat()
    describe(talk, group)
    two.leave()
    one.until_assigned(3)
    three.until_assigned(3)


def a_member_leaves_before_it_has_revoked(talk: Talk) -> None:
    topic, group = talk.topic("orders", 2), new_group(talk)
    one, two = (Grouped(talk, group, name, [topic]) for name in ("one", "two"))
    one.join()
    two.join()
    one.beat()
    two.beat()
    one.leave()
    two.beat()
    two.beat()
    describe(talk, group)


def responses_are_lost(talk: Talk) -> None:
    topic, group = talk.topic("orders", 4), new_group(talk)
    one, two = (Grouped(talk, group, name, [topic]) for name in ("one", "two"))
    one.join()
    one.join()  # the same member again, whose first response was lost
    two.join()
    before = one.epoch
    one.beat()
    one.beat(one.owned)
    one.ask(before)
    one.ask(before, {topic: [0, 1, 2, 3]})
    one.ask(before, one.owned)
    one.ask(before, {})
    talk.ask(one.full_request(before, one.owned))
    two.beat()
    two.ask(two.epoch - 1, two.owned)
    describe(talk, group)
    talk.ask(two.full_request(0))
    two.beat()
    describe(talk, group)


def epochs_are_fenced(talk: Talk) -> None:
    topic, group = talk.topic("orders", 6), new_group(talk)
    one, two, three = (Grouped(talk, group, name, [topic]) for name in ("one", "two", "three"))
    one.join()
    two.join()
    one.beat()
    one.beat(one.owned)
    two.until_assigned(3)
    three.join()
    two.beat()
    one.beat()
    for member in (one, two, three):
        for epoch in (member.epoch + 1, member.epoch + 7, max(member.epoch - 1, 1), 1):
            member.ask(epoch)
    one.leave()
    one.ask(one.epoch)


def static_members_return(talk: Talk) -> None:
    topic, group = talk.topic("orders", 4), new_group(talk)
    one, two, thief = (
        Grouped(talk, group, name, [topic], instance)
        for name, instance in (("one", "first"), ("two", "second"), ("thief", "first"))
    )
    one.join()
    two.join()
    one.beat()
    one.beat(one.owned)
    two.until_assigned(2)
    describe(talk, group)
    thief.join()
    thief.ask(one.epoch)
    thief.ask(LEAVE_FOR_NOW)
    thief.ask(LEAVE)
    one.ask(one.epoch, instance_id=None)
    one.ask(one.epoch, instance_id="nobody's")
    one.leave(LEAVE_FOR_NOW)
    describe(talk, group)
    one.ask(one.epoch)
    one.ask(one.epoch, one.owned)
    two.beat()
    thief.join()  # the replacement
    thief.beat(thief.owned)
    one.ask(one.epoch)
    describe(talk, group)
    two.beat()
    two.leave()
    thief.until_assigned(4)
    thief.leave(LEAVE_FOR_NOW)
    thief.join()
    thief.leave()
    describe(talk, group)


def a_static_member_leaves_while_it_revokes(talk: Talk) -> None:
    topic, group = talk.topic("orders", 2), new_group(talk)
    one, two, again = (
        Grouped(talk, group, name, [topic], instance)
        for name, instance in (("one", "first"), ("two", None), ("again", "first"))
    )
    one.join()
    two.join()
    one.beat()
    two.beat()
    one.leave(LEAVE_FOR_NOW)
    describe(talk, group)
    two.beat()
    again.join()
    describe(talk, group)
    two.beat()


def members_subscribe_to_different_topics(talk: Talk) -> None:
    orders, parcels, group = talk.topic("orders", 2), talk.topic("parcels", 2), new_group(talk)
    one, two = Grouped(talk, group, "one", [orders]), Grouped(talk, group, "two", [parcels])
    one.join()
    two.join()
    one.beat()
    describe(talk, group)
    one.beat(subscribed_topic_names=[parcels])
    one.beat(one.owned)
    two.beat()
    two.beat(two.owned)
    one.beat(one.owned)
    describe(talk, group)
    two.beat(subscribed_topic_names=[])
    one.beat()
    describe(talk, group)
    two.beat(two.owned)
    one.beat()
    describe(talk, group)


def topics_come_and_go(talk: Talk) -> None:
    orders, group = talk.topic("orders", 1), new_group(talk)
    later = talk.name("later")
    one = Grouped(talk, group, "one", [orders, later])
    one.join()
    describe(talk, group)
    later_id = _create(talk, later, 2)
    one.until_assigned(3)
    talk.quietly(CreatePartitionsRequest([CreatePartitionsTopic(orders, 2, None)], 10_000))
    one.until_assigned(4)
    talk.quietly(DeleteTopicsRequest([DeleteTopicState(None, later_id)], timeout_ms=10_000))
    one.until_assigned(2)
    _create(talk, later, 1)
    one.until_assigned(3)


def _create(talk: Talk, topic: str, partitions: int) -> bytes:
    created = talk.wait_for(
        lambda: CreateTopicsRequest([CreatableTopic(topic, partitions, 1)]),
        lambda response: response.topics[0].error_code == 0,
    )
    talk.topic_ids[topic] = created.topics[0].topic_id
    return created.topics[0].topic_id


def regular_expressions(talk: Talk) -> None:
    first, group = talk.topic("red", 2), new_group(talk)
    talk.call(talk.mark, "mark")
    one, two = Grouped(talk, group, "one"), Grouped(talk, group, "two")
    regex = f"(red|blue)-{talk.mark}"
    for wrong in ("[", "(", "*a", "a(?=b)", r"(a)\1"):
        one.join(subscribed_topic_names=None, subscribed_topic_regex=wrong)
    one.join(subscribed_topic_names=None, subscribed_topic_regex=regex)
    time.sleep(LAG_S)
    one.beat(one.owned)
    one.beat(one.owned)
    describe(talk, group)
    one.beat(subscribed_topic_names=[first])
    one.beat(subscribed_topic_regex="[")
    describe(talk, group)
    two.join(subscribed_topic_names=None, subscribed_topic_regex=regex)
    one.beat()
    one.beat(one.owned)
    two.beat()
    describe(talk, group)
    blue = talk.topic("blue", 2)  # the broker looks for new topics every ten seconds
    one.until(lambda _: blue in one.owned, {})
    two.until(lambda _: blue in two.owned)
    two.beat(subscribed_topic_regex="")
    two.beat({})
    one.beat()
    describe(talk, group)


def assignments_wait_for_the_interval(talk: Talk) -> None:
    topic, group = talk.topic("orders", 4), new_group(talk)
    if talk.newest(OffsetCommitRequest) < KEEPS_INTERVAL_SINCE:
        return
    talk.configure_group(group, {"consumer.assignment.interval.ms": "1000"})
    one, two = (Grouped(talk, group, name, [topic]) for name in ("one", "two"))
    one.join()
    two.join()
    describe(talk, group)
    one.beat()
    time.sleep(1.2)
    one.beat()
    describe(talk, group)
    two.beat()
    one.beat(one.owned)
    two.until_assigned(2)
    one.leave()
    describe(talk, group)
    two.beat()
    time.sleep(1.2)
    two.until_assigned(4)
    two.leave()
    describe(talk, group)
    one.join()
    describe(talk, group)


def sessions_expire(talk: Talk) -> None:
    topic, group = talk.topic("orders", 2), new_group(talk, settings=QUICK)
    one, two = (Grouped(talk, group, name, [topic]) for name in ("one", "two"))
    one.join()
    time.sleep(0.6)
    one.beat()
    time.sleep(0.6)
    one.beat()
    two.join()
    two.until_assigned(2)
    one.ask(one.epoch)
    time.sleep(1.5)
    two.ask(two.epoch)
    describe(talk, group)


def a_static_member_does_not_return(talk: Talk) -> None:
    topic, group = talk.topic("orders", 2), new_group(talk, settings=QUICK)
    one = Grouped(talk, group, "one", [topic], "first")
    one.join()
    one.leave(LEAVE_FOR_NOW)
    time.sleep(1.5)
    describe(talk, group)


def revocation_takes_too_long(talk: Talk) -> None:
    topic, group = talk.topic("orders", 2), new_group(talk)
    one, two = (Grouped(talk, group, name, [topic]) for name in ("one", "two"))
    one.join(rebalance_timeout_ms=500)
    two.join()
    one.beat()
    two.beat()
    two.until_assigned(2)
    one.ask(one.epoch)
    describe(talk, group)


def ranges_are_assigned(talk: Talk) -> None:
    orders, parcels, group = talk.topic("orders", 5), talk.topic("parcels", 4), new_group(talk)
    one, two, three = (
        Grouped(talk, group, name, [orders, parcels], instance)
        for name, instance in (("one", "a"), ("two", "b"), ("three", None))
    )
    one.join(server_assignor="range")
    two.join(server_assignor="range")
    describe(talk, group)
    one.beat()
    one.beat(one.owned)
    two.beat()
    three.join(server_assignor="range")
    describe(talk, group)
    one.beat()
    two.beat(subscribed_topic_names=[parcels])
    describe(talk, group)


def the_preferred_assignor_changes(talk: Talk) -> None:
    orders, parcels, group = talk.topic("orders", 3), talk.topic("parcels", 3), new_group(talk)
    one, two, three = (
        Grouped(talk, group, name, [orders, parcels], name) for name in ("one", "two", "three")
    )
    for member in (one, two, three):
        member.join(server_assignor="range")
    one.beat(server_assignor="uniform")
    describe(talk, group)
    two.beat(server_assignor="uniform")
    described: Any = talk.quietly(ConsumerGroupDescribeRequest([group])).groups[0]
    talk.note("group", [described.assignor_name, described.group_epoch, described.assignment_epoch])


SCRIPTS = [
    invalid_heartbeats,
    the_broker_chooses_member_ids_in_v0,
    a_member_alone,
    partitions_are_handed_over,
    a_member_leaves_before_it_has_revoked,
    responses_are_lost,
    epochs_are_fenced,
    static_members_return,
    a_static_member_leaves_while_it_revokes,
    members_subscribe_to_different_topics,
    topics_come_and_go,
    regular_expressions,
    assignments_wait_for_the_interval,
    sessions_expire,
    a_static_member_does_not_return,
    revocation_takes_too_long,
    ranges_are_assigned,
    the_preferred_assignor_changes,
]
