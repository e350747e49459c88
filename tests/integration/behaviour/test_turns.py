"""Members whose fetches wait for one partition: who gets the records that acknowledgements make room for."""

from __future__ import annotations

import pytest

from kshare.protocol.messages import ShareFetchResponse, ShareGroupDescribeRequest
from tests.integration.conversation.sharer import ACCEPT, Sharer
from tests.integration.conversation.talk import Talk
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka]

_ENOUGH = 1 << 20


def test_room_made_by_acknowledgements_is_for_the_member_that_waits(kafka: Cluster) -> None:
    """A batch fills the window of 2,000 locks. Who settles it, and fetches in the same request, comes last."""
    with Talk(kafka.nodes[0].address()) as talk:
        topic, group = talk.topic("orders"), talk.group("workers")
        first, second, third = members = [
            Sharer(talk, group, topic, name) for name in ("one", "two", "three")
        ]
        for member in members:
            member.join(0)
            member.open()
        talk.produce(topic, [3000] * 3)
        acquired: list[tuple[int, int, int]] = []
        while not acquired:
            response = talk.quietly(first.fetch_request(wait_ms=5000, max_bytes=_ENOUGH), first.via)
            first.epoch += 1
            acquired = [(low, high, ACCEPT) for low, high in ranges(response)]
        for member in (second, third):
            talk.send(member.fetch_request(wait_ms=5000, max_bytes=_ENOUGH), member.via)
            # Another connection's request is handled later: the fetch waits by then.
            talk.quietly(ShareGroupDescribeRequest([group]), member.via + " probe")
        settling = first.fetch_request(wait_ms=1000, max_bytes=_ENOUGH, acks={0: acquired})
        talk.send(settling, first.via)
        found = [ranges(talk.receive(settling, member.via)) for member in members]
        assert acquired[0][:2] == (0, 2999)
        assert [*map(bool, found)] == [False, True, False]
        for member in members:
            member.leave()


def ranges(response: ShareFetchResponse) -> list[tuple[int, int]]:
    assert response.error_code == 0, response
    rows = [row for topic in response.responses for part in topic.partitions for row in part.acquired_records]
    return [(row.first_offset, row.last_offset) for row in rows]
