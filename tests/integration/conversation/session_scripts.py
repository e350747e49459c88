"""Share sessions: how they are opened, continued and closed, and everything that isn't allowed."""

from __future__ import annotations

import time

from kshare.protocol.messages import (
    DeleteTopicsRequest,
    MetadataRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kshare.protocol.messages import share_acknowledge_request as acknowledge
from kshare.protocol.messages import share_fetch_request as fetch
from kshare.protocol.messages.delete_topics_request import DeleteTopicState
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from kshare.protocol.messages.share_fetch_response import AcquiredRecords
from tests.integration.conversation.sharer import ACCEPT, RELEASE, RENEW, Sharer
from tests.integration.conversation.talk import Talk

NOWHERE = b"nowhere........."


def scene(talk: Talk, *sizes: int, partitions: int = 1, label: str = "member", **settings: str) -> Sharer:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    topic, group = talk.topic(f"topic-{label}", partitions), talk.group(f"group-{label}", named)
    talk.produce(topic, sizes)
    member = Sharer(talk, group, topic, label)
    member.join(partitions)
    return member


def epochs(talk: Talk) -> None:
    one = scene(talk, 10, 10)
    one.fetch(5)
    one.acknowledge((0, 1, ACCEPT), epoch=1)
    one.acknowledge((0, 1, ACCEPT), epoch=-1)
    one.fetch(-1)
    one.fetch(0, acks={0: [(0, 1, ACCEPT)]})
    one.acknowledge((0, 1, ACCEPT), epoch=0)
    one.fetch(0, wait_ms=5000)
    one.fetch(3)
    one.acknowledge((0, 1, ACCEPT), epoch=7)
    one.acknowledge((0, 1, ACCEPT))
    one.fetch(1)
    one.fetch(acks={0: [(2, 3, ACCEPT)]})
    one.fetch()
    one.acknowledge((4, 5, RELEASE), epoch=-2)
    one.fetch(-2)
    one.fetch(acks={0: [(4, 5, ACCEPT)]}, epoch=-1)
    one.fetch(-1)
    one.acknowledge((4, 5, ACCEPT), epoch=-1)
    one.fetch(0, wait_ms=5000)
    one.fetch(0, wait_ms=1000)
    one.acknowledge((6, 7, ACCEPT), epoch=-1)
    one.acknowledge((8, 8, ACCEPT), epoch=2)
    one.fetch(0, wait_ms=5000)
    one.acknowledge_many({}, -1)
    one.acknowledge_many({}, -1)


def sessions_belong_to_members(talk: Talk) -> None:
    one = scene(talk, 10, 10)
    two = Sharer(talk, one.group, one.topic, "two")
    one.fetch(0, wait_ms=5000, most=10)
    two.fetch(1)
    two.fetch(0, wait_ms=5000, most=10)
    two.acknowledge((0, 4, ACCEPT))
    one.acknowledge((10, 14, ACCEPT))
    one.acknowledge((0, 4, ACCEPT))
    two.fetch(-1)
    one.fetch(wait_ms=5000)
    talk.hang_up(one.via)
    _until_given_back(talk, one, 5)
    one.epoch = 3
    one.fetch()
    one.fetch(0, wait_ms=100)


def a_connection_ends(talk: Talk) -> None:
    one = scene(talk, 10)
    one.fetch(0, wait_ms=5000)
    one.acknowledge((0, 0, ACCEPT))
    talk.hang_up(one.via)
    _until_given_back(talk, one, 1)
    one.fetch(0, wait_ms=5000)
    one.acknowledge((1, 1, ACCEPT))
    # Another connection may continue the session, but the session ends with the first one.
    one.via = "elsewhere"
    one.fetch()
    one.acknowledge((2, 2, ACCEPT))
    talk.hang_up("member")
    _until_given_back(talk, one, 3)
    one.fetch()
    one.acknowledge((3, 3, ACCEPT))
    one.fetch(0, wait_ms=5000)


def _until_given_back(talk: Talk, sharer: Sharer, offset: int) -> None:
    """Wait until another member can acquire the record, which it releases at once.

    It releases with an acknowledgement, which gets a response when the records are available again. What a session
    holds when it ends is released in the background: on a real broker, some of it may not be available to the next
    fetch yet.
    """
    other = Sharer(talk, sharer.group, sharer.topic, "other")
    found = talk.wait_for(
        lambda: other.fetch_request(0, wait_ms=100),
        lambda response: any(row.first_offset == offset for row in _acquired(response)),
    )
    rows = [
        acknowledge.AcknowledgementBatch(row.first_offset, row.last_offset, bytes([RELEASE]))
        for row in _acquired(found)
    ]
    topic = acknowledge.AcknowledgeTopic(other.topic_id, [acknowledge.AcknowledgePartition(0, rows)])
    released = talk.quietly(ShareAcknowledgeRequest(other.group, other.id, 1, topics=[topic]))
    assert released.responses[0].partitions[0].error_code == 0, released
    talk.quietly(other.fetch_request(-1))


def _acquired(response: ShareFetchResponse) -> list[AcquiredRecords]:
    return [row for topic in response.responses for part in topic.partitions for row in part.acquired_records]


def topics_that_nobody_knows(talk: Talk) -> None:
    """Unknown topics in a session or when it opens. Before 4.4 the whole request fails, but the session continues."""
    one = scene(talk, 10)
    warm_up(talk, one, 1)
    one.open()
    nowhere = [fetch.FetchTopic(NOWHERE, [fetch.FetchPartition(0)])]
    for topics in (nowhere, [], []):
        talk.ask(one.fetch_request(one.epoch, topics=topics), one.via)
        one.epoch += 1
    talk.ask(one.fetch_request(1), one.via)
    one.acknowledge((0, 0, ACCEPT), epoch=one.epoch)
    two = Sharer(talk, one.group, one.topic, "two")
    both = [*nowhere, fetch.FetchTopic(two.topic_id, [fetch.FetchPartition(0)])]
    two.fetch(0, topics=nowhere)
    two.fetch(0, topics=both)
    talk.ask(two.fetch_request(1), two.via)
    two.fetch(-1)


def partitions_come_and_go(talk: Talk) -> None:
    one = scene(talk, partitions=3)
    warm_up(talk, one, 3)
    for partition in range(3):
        talk.produce(one.topic, [10], partition)
    one.fetch(0, wait_ms=5000, partitions=[0])
    one.fetch(partitions=[1, 2], forget=[0], wait_ms=5000)
    one.acknowledge((0, 4, ACCEPT))
    one.acknowledge((0, 4, RELEASE), partition=1)
    one.fetch(forget=[1], wait_ms=500)
    one.fetch(forget=[7], wait_ms=0)
    one.fetch(partitions=[0, 1], wait_ms=500)
    one.fetch(partitions=[1])
    one.acknowledge_many({0: [(5, 5, ACCEPT)], 1: [(5, 5, ACCEPT)], 2: [(5, 5, ACCEPT)]})
    one.acknowledge_many({0: [(5, 5, ACCEPT)], 1: [(6, 6, ACCEPT)], 2: [(99, 99, ACCEPT)]})
    one.fetch(acks={0: [(6, 6, ACCEPT)], 2: [(99, 99, ACCEPT)]}, epoch=None)
    one.fetch(acks={0: [(7, 7, 9)], 1: [(7, 7, ACCEPT)]})
    one.fetch(-1, acks={0: [(8, 8, ACCEPT)]})


def warm_up(talk: Talk, sharer: Sharer, partitions: int) -> None:
    """Wait until the share-partitions are loaded: before that, a broker responds without them."""
    other = Sharer(talk, sharer.group, sharer.topic, "warm")
    talk.wait_for(
        lambda: other.fetch_request(0, partitions=range(partitions), wait_ms=100),
        lambda a: sum(len(topic.partitions) for topic in a.responses) == partitions,
    )
    talk.quietly(other.fetch_request(-1))


def things_that_are_not_there(talk: Talk) -> None:
    one = scene(talk, 10)
    one.fetch(0, partitions=[0, 5], wait_ms=5000)
    one.fetch(partitions=[6])
    one.fetch()
    one.acknowledge((0, 0, ACCEPT), partition=5)
    one.acknowledge((0, 0, ACCEPT), partition=-1)
    real, one.topic_id = one.topic_id, NOWHERE
    one.acknowledge((0, 0, ACCEPT))
    one.topic_id = real
    one.acknowledge((0, 0, ACCEPT))


def members_without_a_group(talk: Talk) -> None:
    topic = talk.topic("orders")
    talk.produce(topic, [5])
    group = talk.group("nobody")
    one = Sharer(talk, group, topic, "one")
    one.fetch(0, wait_ms=300)
    one.fetch(wait_ms=300)
    one.acknowledge((0, 0, ACCEPT))
    two = Sharer(talk, "", topic, "two")
    two.fetch(0)
    two.acknowledge((0, 0, ACCEPT), epoch=0)


def malformed(talk: Talk) -> None:
    one = scene(talk, 10)
    one.fetch(0, wait_ms=5000)
    epoch = one.epoch
    for fields in (
        {"member_id": ""},
        {"member_id": None},
        {"group_id": None},
    ):
        talk.ask(one.fetch_request(epoch, **fields), one.via)
    talk.ask(ShareAcknowledgeRequest(None, one.id, epoch), one.via)
    talk.ask(ShareAcknowledgeRequest(one.group, "", epoch), one.via)
    one.fetch(is_renew_ack=True)
    one.fetch(is_renew_ack=True, wait_ms=5, most=0, min_bytes=0, max_bytes=0)
    one.fetch(is_renew_ack=True, most=0, min_bytes=0, max_bytes=0, batch_size=5)
    one.fetch(is_renew_ack=True, most=0, min_bytes=0, max_bytes=0, batch_size=0)
    one.fetch(is_renew_ack=True, most=0, min_bytes=0, max_bytes=0, acks={0: [(0, 9, RENEW)]})
    one.fetch(acks={0: [(0, 9, RENEW)]})
    one.acknowledge((0, 9, RENEW))
    one.acknowledge((0, 9, RENEW), is_renew_ack=True)
    one.acknowledge((0, 3, (ACCEPT, RENEW, RELEASE, RENEW)), is_renew_ack=True)
    one.acknowledge((0, 3, ACCEPT))
    one.acknowledge((1, 1, ACCEPT), (3, 3, ACCEPT))
    one.fetch(most=0)
    one.fetch(most=-1)
    one.fetch(batch_size=0)
    one.fetch(batch_size=-1)
    one.fetch(max_bytes=0)
    one.fetch(max_bytes=-1)
    one.fetch(min_bytes=-1)
    one.fetch(wait_ms=-1)
    talk.ask(
        ShareFetchRequest(
            one.group, one.id, one.epoch, topics=[fetch.FetchTopic(one.topic_id, [])], max_records=5
        ),
        one.via,
    )
    one.epoch += 1
    one.fetch()


def a_parked_fetch_is_overtaken(talk: Talk) -> None:
    """An acknowledgement arrives on another connection: the fetch ends after its max wait, the session continues."""
    one = scene(talk, 10)
    one.fetch(0, wait_ms=5000)
    parked = one.fetch_request(wait_ms=2000)
    talk.send(parked, one.via)
    time.sleep(1.0)  # there is no way to tell when a request has been parked
    one.epoch += 1
    first, one.via = one.via, "other"
    one.acknowledge((0, 4, ACCEPT))
    talk.receive(parked, first)
    one.acknowledge((5, 9, ACCEPT))
    one.fetch()


def a_topic_goes(talk: Talk) -> None:
    one = scene(talk, 10)
    one.fetch(0, wait_ms=5000)
    talk.quietly(DeleteTopicsRequest([DeleteTopicState(one.topic)], [], 10_000))
    talk.wait_for(
        lambda: MetadataRequest(topics=[MetadataRequestTopic(name=one.topic)]),
        lambda response: response.topics[0].error_code != 0,
    )
    one.acknowledge((0, 4, ACCEPT))
    one.fetch(-1)


def too_many_sessions(talk: Talk) -> None:
    """The brokers of this conversation allow eight sessions."""
    one = scene(talk, 10)
    members = [Sharer(talk, one.group, one.topic, f"member-{number}") for number in range(9)]
    for member in members:
        member.fetch(0, most=0)
    members[0].fetch(-1)
    members[8].fetch(0, most=0)
    members[0].fetch(0, most=0)
    members[8].fetch(0, most=0)
    for member in members[1:]:
        member.fetch(-1)


SCRIPTS = [
    epochs,
    sessions_belong_to_members,
    a_connection_ends,
    partitions_come_and_go,
    topics_that_nobody_knows,
    things_that_are_not_there,
    members_without_a_group,
    malformed,
    too_many_sessions,
    a_parked_fetch_is_overtaken,
    a_topic_goes,
]
