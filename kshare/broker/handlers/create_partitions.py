"""CreatePartitions v0-3, on any node.

v0: the first version.
v1: when a quota is exceeded, the response is sent before throttling.
v2: flexible, with compact lengths and tagged fields.
v3: may return THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from collections import Counter

from kshare.broker.cluster import MAX_NEW_PARTITIONS
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import CreatePartitionsRequest, CreatePartitionsResponse
from kshare.protocol.messages.create_partitions_request import CreatePartitionsTopic
from kshare.protocol.messages.create_partitions_response import CreatePartitionsTopicResult


async def handle(request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse:
    named = Counter(topic.name for topic in request.topics)
    wanted = {topic.name: topic for topic in request.topics}
    if sum(_more(topic, call) for topic in wanted.values() if named[topic.name] == 1) > MAX_NEW_PARTITIONS:
        reason = "Unable to perform excessively large batch operation."
        refusal = RequestError(ErrorCode.POLICY_VIOLATION, reason)
        return CreatePartitionsResponse(results=[_refused(name, refusal) for name in wanted])
    duplicate = RequestError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    return CreatePartitionsResponse(
        results=[
            _refused(name, duplicate) if named[name] > 1 else _extend(topic, request.validate_only, call)
            for name, topic in wanted.items()
        ]
    )


def _more(wanted: CreatePartitionsTopic, call: Call) -> int:
    """How many partitions the topic would get."""
    topic = call.broker.cluster.find(wanted.name)
    return max(wanted.count - len(topic.partitions), 0) if topic else 0


def _refused(name: str, refusal: RequestError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name, refusal.code, refusal.message)


def _extend(wanted: CreatePartitionsTopic, validate_only: bool, call: Call) -> CreatePartitionsTopicResult:
    cluster = call.broker.cluster
    topic = cluster.find(wanted.name)
    if topic is None:
        return CreatePartitionsTopicResult(wanted.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assignments = [each.broker_ids for each in wanted.assignments or []]
    try:
        if validate_only:
            cluster.check_more_partitions(topic, wanted.count, assignments or None)
        else:
            cluster.add_partitions(topic, wanted.count, assignments or None)
    except RequestError as refusal:
        return _refused(wanted.name, refusal)
    return CreatePartitionsTopicResult(wanted.name)
