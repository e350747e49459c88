"""CreatePartitions v0-3, on any node.

v0: the first version.
v1: when a quota is exceeded, the response is sent before throttling.
v2: flexible, with compact lengths and tagged fields.
v3: may return THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import CreatePartitionsRequest, CreatePartitionsResponse
from kshare.protocol.messages.create_partitions_request import CreatePartitionsTopic
from kshare.protocol.messages.create_partitions_response import CreatePartitionsTopicResult


async def handle(request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[_extend(topic, request.validate_only, call) for topic in request.topics]
    )


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
        return CreatePartitionsTopicResult(wanted.name, refusal.code, refusal.message)
    return CreatePartitionsTopicResult(wanted.name)
