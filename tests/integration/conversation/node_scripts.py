"""Requests to the wrong one of three nodes. Nodes are noted by their role."""

from __future__ import annotations

from typing import Any

from kshare.protocol.json_form import uuid_text
from kshare.protocol.messages import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    ShareGroupDescribeRequest,
)
from kshare.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequestGroup,
)
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from tests.integration.conversation.sharer import Sharer
from tests.integration.conversation.state_scripts import Coordinator
from tests.integration.conversation.talk import Talk

Address = tuple[str, int]


def _coordinator(talk: Talk, kind: int, key: str) -> Address:
    found = talk.wait_for(
        lambda: FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]),
        lambda response: response.coordinators[0].error_code == 0,
    ).coordinators[0]
    return found.host, found.port


def _others(talk: Talk, address: Address) -> list[Address]:
    """The addresses of all other nodes."""
    brokers = talk.quietly(MetadataRequest(topics=[])).brokers
    return [(broker.host, broker.port) for broker in brokers if broker.port != address[1]]


def coordinators(talk: Talk) -> None:
    topic = talk.topic("orders")
    group = talk.name("g")
    others = _others(talk, _coordinator(talk, 0, group))
    for number, address in enumerate(others):
        via = f"wrong-{number}"
        talk.send_to(via, address)
        one = Sharer(talk, group, topic, f"one-{number}")
        talk.ask(one.heartbeat(0, [topic]), via)
        talk.ask(one.heartbeat(3), via)
        talk.ask(one.heartbeat(-1), via)
        talk.ask(ShareGroupDescribeRequest([group]), via)
        asked = DescribeShareGroupOffsetsRequestGroup(group, None)
        talk.ask(DescribeShareGroupOffsetsRequest([asked]), via)
        talk.ask(AlterShareGroupOffsetsRequest(group, []), via)
        talk.ask(DeleteShareGroupOffsetsRequest(group, []), via)


def share_coordinators(talk: Talk) -> None:
    topic = talk.topic("orders")
    group, topic_id = talk.name("g"), talk.topic_ids[topic]
    others = _others(talk, _coordinator(talk, 2, f"{group}:{uuid_text(topic_id)}:0"))
    for address in others:
        talk.send_to("main", address)
        coordinator = Coordinator(talk, topic_id, group)
        coordinator.initialize(0, 0)
        coordinator.read()
        coordinator.summary()
        coordinator.write(0, 0, 0)
        coordinator.delete()


def leaders(talk: Talk) -> None:
    topic = talk.topic("orders")
    group = talk.group("g")
    wanted = [MetadataRequestTopic(name=topic)]
    found = talk.quietly(MetadataRequest(topics=wanted))
    leader = found.topics[0].partitions[0].leader_id
    for number, broker in enumerate(broker for broker in found.brokers if broker.node_id != leader):
        one = Sharer(talk, group, topic, f"one-{number}")
        talk.send_to(one.via, (broker.host, broker.port))
        response = talk.quietly(one.fetch_request(0), one.via)
        partitions = [partition for row in response.responses for partition in row.partitions]
        if not partitions:  # this node doesn't know the topic yet
            talk.note("leader", None)
            return
        [partition] = partitions
        one.epoch = 1
        _note_leader(talk, partition, leader)
        talk.note("end points", [node.node_id == leader for node in response.node_endpoints])
        response = talk.quietly(one.fetch_request(1), one.via)
        _note_leader(talk, response.responses[0].partitions[0], leader)


def _note_leader(talk: Talk, partition: Any, leader: int) -> None:
    points_there = partition.current_leader.leader_id == leader
    talk.note("leader", [partition.error_code, points_there, partition.current_leader.leader_epoch])


SCRIPTS = {script.__name__: script for script in (coordinators, share_coordinators, leaders)}
