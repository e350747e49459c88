"""A member of a consumer group of KIP-848 in a conversation: builds the requests of scripts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    FindCoordinatorRequest,
    OffsetCommitRequest,
)
from kshare.protocol.messages.consumer_group_heartbeat_request import TopicPartitions
from tests.integration.conversation.talk import Talk

LEAVE, LEAVE_FOR_NOW = -1, -2
Owned = Mapping[str, Sequence[int]]
"""Topic → partition numbers."""
LAG_S = 0.3
"""How long a real coordinator may not know of a topic that Metadata responses already have."""
KEEPS_INTERVAL_SINCE = 10
"""The version of OffsetCommit in releases that have an assignment interval."""


def new_group(talk: Talk, label: str = "g", settings: Mapping[str, str] | None = None) -> str:
    """The name of a consumer group that assigns at once."""
    name = talk.name(label)
    chosen = dict(settings or {})
    if talk.newest(OffsetCommitRequest) >= KEEPS_INTERVAL_SINCE:
        chosen = {"consumer.assignment.interval.ms": "0"} | chosen
    if chosen:
        talk.configure_group(name, chosen)
    talk.wait_for(
        lambda: FindCoordinatorRequest(key_type=0, coordinator_keys=[name]),
        lambda response: response.coordinators[0].error_code == 0,
    )
    talk.wait_for(
        lambda: ConsumerGroupDescribeRequest([name]),
        lambda response: response.groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND,
    )
    time.sleep(LAG_S)
    return name


def describe(talk: Talk, *groups: str) -> Any:
    return talk.ask(ConsumerGroupDescribeRequest(list(groups)))


class Grouped:
    """One member. `epoch` and `owned` follow the responses."""

    def __init__(
        self, talk: Talk, group: str, label: str, topics: Sequence[str] = (), instance: str | None = None
    ) -> None:
        self.talk, self.group, self.topics, self.instance = talk, group, list(topics), instance
        self.id = talk.member(label)
        self.epoch = 0
        self.owned: dict[str, list[int]] = {}

    def request(self, epoch: int, owned: Owned | None = None, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        rows = owned and [
            TopicPartitions(self.talk.topic_ids[topic], list(indexes)) for topic, indexes in owned.items()
        ]
        values: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": epoch,
            "instance_id": self.instance,
            "topic_partitions": [] if owned is not None and not owned else rows,
        }
        return ConsumerGroupHeartbeatRequest(**values | fields)

    def full_request(
        self, epoch: int, owned: Owned | None = None, **fields: Any
    ) -> ConsumerGroupHeartbeatRequest:
        """A request with everything, as a client sends it to join and after errors."""
        usual = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": self.topics}
        return self.request(epoch, owned or {}, **usual | fields)

    def join(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        return self._follow(self.talk.ask(self.full_request(0, **fields)))

    def beat(self, owned: Owned | None = None, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat with the current epoch."""
        return self._follow(self.talk.ask(self.request(self.epoch, owned, **fields)))

    def ask(self, epoch: int, owned: Owned | None = None, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat with another epoch, whose response changes nothing here."""
        return self.talk.ask(self.request(epoch, owned, **fields))

    def until(
        self, good: Callable[[ConsumerGroupHeartbeatResponse], bool], owned: Owned | None = None
    ) -> ConsumerGroupHeartbeatResponse:
        """Heartbeats until a response is good. They aren't compared."""

        def seen(response: ConsumerGroupHeartbeatResponse) -> bool:
            self._follow(response)
            return good(response)

        return self.talk.wait_for(lambda: self.request(self.epoch, owned), seen)

    def until_assigned(self, count: int) -> None:
        """Heartbeats until it has this many partitions, which it says it owns."""

        def is_assigned(_: ConsumerGroupHeartbeatResponse) -> bool:
            return sum(map(len, self.owned.values())) == count

        if not is_assigned(ConsumerGroupHeartbeatResponse()):
            self.talk.wait_for(
                lambda: self.request(self.epoch, self.owned),
                lambda response: is_assigned(self._follow(response)),
            )
        self.talk.note("assigned", count)

    def leave(self, epoch: int = LEAVE) -> ConsumerGroupHeartbeatResponse:
        return self.talk.ask(self.request(epoch))

    def _follow(self, response: ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatResponse:
        if not response.error_code:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                names = {topic_id: name for name, topic_id in self.talk.topic_ids.items()}
                self.owned = {
                    names.get(row.topic_id, row.topic_id.hex()): list(row.partitions)
                    for row in response.assignment.topic_partitions
                }
        return response
