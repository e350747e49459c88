"""Requests of a user without permissions, which are then granted one after the other."""

from __future__ import annotations

from kshare.protocol.json_form import uuid_text
from kshare.protocol.messages import (
    CreateAclsRequest,
    DescribeAclsRequest,
    FindCoordinatorRequest,
    ShareGroupDescribeRequest,
)
from kshare.protocol.messages.create_acls_request import AclCreation
from tests.integration.conversation.grouped import Grouped, describe, new_group
from tests.integration.conversation.offset_scripts import alter, delete, show
from tests.integration.conversation.sharer import ACCEPT, Sharer
from tests.integration.conversation.state_scripts import Coordinator
from tests.integration.conversation.talk import Talk
from tools.kafka.listeners import USERS

ROOT, STRANGER = USERS
_TOPIC, _GROUP, _CLUSTER = 2, 3, 4
_READ, _DELETE, _DESCRIBE, _CLUSTER_ACTION = 3, 6, 8, 9
_ANY, _LITERAL, _ALLOW, _DENY = 1, 3, 3, 2


def grant(
    talk: Talk, on: int, name: str, operation: int, permission: int = _ALLOW, principal: str = STRANGER.name
) -> None:
    """Create an ACL, and wait until the broker applies it."""
    rule = AclCreation(on, name, _LITERAL, f"User:{principal}", "*", operation, permission)
    made = talk.quietly(CreateAclsRequest([rule]), "root")
    assert made.results[0].error_code == 0, made
    asked = DescribeAclsRequest(on, name, _LITERAL, f"User:{principal}", None, operation, permission)
    talk.wait_for(lambda: asked, lambda response: bool(response.resources), via="root")


def scene(talk: Talk, label: str) -> Sharer:
    """Create a topic with records and a group. Returns the stranger's member, which sends all further requests."""
    topic, group = talk.topic(f"topic-{label}"), talk.group(f"group-{label}")
    talk.produce(topic, (10,))
    one = Sharer(talk, group, topic, "insider")
    one.join()
    one.open()
    Coordinator(talk, talk.topic_ids[topic], group).find()
    talk.connection("root")
    talk.user = STRANGER
    talk.hang_up("main")
    return Sharer(talk, group, topic, "stranger", via="main")


def try_everything(talk: Talk, sharer: Sharer) -> None:
    talk.ask(sharer.heartbeat(0, [sharer.topic]))
    talk.ask(sharer.heartbeat(3))
    talk.ask(sharer.heartbeat(-1))
    talk.ask(ShareGroupDescribeRequest([sharer.group]))
    sharer.fetch(0, wait_ms=100, most=3)
    sharer.acknowledge((0, 0, ACCEPT))
    sharer.fetch(-1)
    sharer.epoch = 0
    show(talk, sharer.group)
    show(talk, sharer.group, {sharer.topic: [0]})
    alter(talk, sharer.group, {sharer.topic: {0: 1}})
    delete(talk, sharer.group, sharer.topic)


def a_group_without_rights(talk: Talk) -> None:
    one = scene(talk, "a")
    try_everything(talk, one)
    one.fetch(7)
    one.acknowledge((0, 0, ACCEPT), epoch=0)
    one.fetch(0, acks={0: [(0, 1, ACCEPT)]})
    talk.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[one.group]))


def a_topic_without_rights(talk: Talk) -> None:
    one = scene(talk, "b")
    grant(talk, _GROUP, one.group, _READ)
    try_everything(talk, one)
    grant(talk, _GROUP, one.group, _DELETE)
    delete(talk, one.group, one.topic)


def only_looking_on(talk: Talk) -> None:
    one = scene(talk, "c")
    grant(talk, _GROUP, one.group, _DESCRIBE)
    grant(talk, _TOPIC, one.topic, _DESCRIBE)
    try_everything(talk, one)


def nothing_is_missing(talk: Talk) -> None:
    one = scene(talk, "d")
    grant(talk, _GROUP, one.group, _READ)
    grant(talk, _TOPIC, one.topic, _READ)
    talk.ask(ShareGroupDescribeRequest([talk.name("missing")]))
    one.fetch(0, wait_ms=5000, most=3)
    one.acknowledge((0, 0, ACCEPT))
    show(talk, one.group, {one.topic: [0]})
    alter(talk, one.group, {one.topic: {0: 1}})
    delete(talk, one.group, one.topic)
    grant(talk, _TOPIC, one.topic, _READ, _DENY)
    one.acknowledge((1, 1, ACCEPT))
    one.fetch(-1)


def state_is_for_brokers(talk: Talk) -> None:
    one = scene(talk, "e")
    topic_id = talk.topic_ids[one.topic]
    coordinator = Coordinator(talk, topic_id, one.group)
    for _ in range(2):
        coordinator.initialize(0, 0)
        coordinator.read()
        coordinator.summary()
        coordinator.write(0, 0, 0)
        coordinator.delete()
        key = f"{one.group}:{uuid_text(topic_id)}:0"
        talk.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]))
        grant(talk, _GROUP, one.group, _READ)


def consumer_groups_have_rights_too(talk: Talk) -> None:
    topic, hidden, group = talk.topic("topic-f"), talk.topic("hidden-f"), new_group(talk, "group-f")
    insider = Grouped(talk, group, "insider", [topic])
    insider.join()
    talk.connection("root")
    talk.user = STRANGER
    talk.hang_up("main")
    one = Grouped(talk, group, "stranger", [topic])
    regex = {"subscribed_topic_names": None, "subscribed_topic_regex": f".*-f-{talk.mark}"}

    def try_to_take_part() -> None:
        one.join()
        one.ask(1)
        one.ask(-1)
        describe(talk, group)
        describe(talk, talk.name("missing"))

    try_to_take_part()
    grant(talk, _GROUP, group, _READ)
    try_to_take_part()
    one.join(**regex)
    one.until_assigned(0)
    describe(talk, group)
    one.leave()
    grant(talk, _TOPIC, topic, _DESCRIBE)
    one.join(subscribed_topic_names=[topic, hidden])
    try_to_take_part()


SCRIPTS = {
    script.__name__: script
    for script in (
        a_group_without_rights,
        a_topic_without_rights,
        only_looking_on,
        nothing_is_missing,
        state_is_for_brokers,
        consumer_groups_have_rights_too,
    )
}
