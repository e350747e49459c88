"""What the requests to the share coordinator have in common: each of their share-partitions succeeds or fails alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kshare.broker.authorizer import CLUSTER_NAME, AclResource, Operation
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.broker.share_state.state_records import Key

PartitionT = TypeVar("PartitionT")
TopicT = TypeVar("TopicT")


def state_results(
    request: Any,
    call: Call,
    carry_out: Callable[[Key, Any], PartitionT],
    partition_result: Callable[..., PartitionT],
    topic_result: Callable[[bytes, list[PartitionT]], TopicT],
) -> list[TopicT]:
    """The results of `carry_out`, or errors, by topic. Empty for a request without a group, as in Kafka."""

    def result(topic_id: bytes, requested: Any) -> PartitionT:
        key = request.group_id, topic_id, requested.partition
        try:
            call.require(Operation.CLUSTER_ACTION, AclResource.CLUSTER, CLUSTER_NAME)
            call.broker.share_states.check_node(key, call.node)
            return carry_out(key, requested)
        except RequestError as refusal:
            reason = refusal.message or refusal.code.name
            return partition_result(requested.partition, error_code=refusal.code, error_message=reason)

    return [
        topic_result(topic.topic_id, [result(topic.topic_id, requested) for requested in topic.partitions])
        for topic in request.topics
        if request.group_id
    ]
