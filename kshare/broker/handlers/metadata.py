"""Metadata v0-13: nodes, topics and leaders. Creates missing topics if the broker is configured so.

v0: the first version; an empty list means all topics.
v1: null means all topics; the response adds Rack, ControllerId and IsInternal.
v2: the response adds ClusterId.
v3: the response adds ThrottleTimeMs.
v4: the request adds AllowAutoTopicCreation.
v5: the response adds OfflineReplicas.
v6: when a quota is exceeded, the response is sent before throttling.
v7: the response adds LeaderEpoch.
v8: the request adds IncludeClusterAuthorizedOperations and IncludeTopicAuthorizedOperations; the response
    adds TopicAuthorizedOperations and ClusterAuthorizedOperations.
v9: flexible, with compact lengths and tagged fields.
v10: the request adds TopicId and lets Name be null; the response adds TopicId.
v11: the request drops IncludeClusterAuthorizedOperations; the response drops ClusterAuthorizedOperations.
v12: topics may be requested by id only.
v13: the response adds ErrorCode.
"""

from __future__ import annotations

from kshare.broker.authorizer import AclResource, Operation
from kshare.broker.cluster import Partition, Topic, check_topic_name
from kshare.broker.connection import Call
from kshare.broker.handlers.describe_cluster import operations_on_cluster
from kshare.broker.request_error import RequestError
from kshare.broker.settings import Resource
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import MetadataRequest, MetadataResponse
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from kshare.protocol.messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_NO_ID = bytes(16)
_ID_ONLY_SINCE = 12


async def handle(request: MetadataRequest, call: Call) -> MetadataResponse:
    cluster = call.broker.cluster
    live = [node for node in cluster.nodes.values() if node.is_up]
    wants_all = request.topics is None or (call.version == 0 and not request.topics)
    if wants_all:
        topics = [_describe(topic) for topic in cluster.topics.values() if _may_describe(topic.name, call)]
    elif call.version < _ID_ONLY_SINCE and any(_needs_id(each) for each in request.topics or []):
        topics = [
            MetadataResponseTopic(ErrorCode.INVALID_REQUEST, each.name or "", each.topic_id)
            for each in request.topics or []
        ]
    else:
        topics = [_requested_topic(wanted, request, call) for wanted in request.topics or []]
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.name is not None and topic.error_code not in (
                AclResource.TOPIC.refusal,
                ErrorCode.INVALID_REQUEST,
            ):
                topic.topic_authorized_operations = call.authorized_operations(AclResource.TOPIC, topic.name)
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(node.id, node.host, node.port, node.rack) for node in live],
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller.id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = operations_on_cluster(call)
    return response


def _needs_id(wanted: MetadataRequestTopic) -> bool:
    return wanted.name is None or wanted.topic_id != _NO_ID


def _requested_topic(
    wanted: MetadataRequestTopic, request: MetadataRequest, call: Call
) -> MetadataResponseTopic:
    cluster = call.broker.cluster
    if wanted.topic_id != _NO_ID:
        found = cluster.find(wanted.topic_id)
        if found is None or not _may_describe(found.name, call):
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, wanted.topic_id)
        return _describe(found)
    name = wanted.name or ""
    if not _may_describe(name, call):
        return MetadataResponseTopic(AclResource.TOPIC.refusal, name)
    found = cluster.find(name)
    if found is not None:
        return _describe(found)
    try:
        check_topic_name(name)
        is_authorized = call.broker.configs.is_on(Resource.BROKER, "", "auto.create.topics.enable")
        if is_authorized and (request.allow_auto_topic_creation or call.version < 4):
            cluster.create_topic(name, call.broker.configs.broker_number("num.partitions"), 1)
            # As in real brokers, whose new topics have no leader yet. The client asks again.
            return MetadataResponseTopic(ErrorCode.LEADER_NOT_AVAILABLE, name)
    except RequestError as refusal:
        return MetadataResponseTopic(refusal.code, name)
    return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)


def _may_describe(name: str, call: Call) -> bool:
    return call.is_authorized(Operation.DESCRIBE, AclResource.TOPIC, name)


def _describe(topic: Topic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        ErrorCode.NONE,
        topic.name,
        topic.id,
        topic.is_internal,
        [MetadataResponsePartition(*partition_fields(partition)) for partition in topic.partitions],
    )


def partition_fields(partition: Partition) -> tuple[ErrorCode, int, int, int, list[int], list[int]]:
    """Error, number, leader and its epoch, replicas, and those in sync, as descriptions of partitions begin."""
    error = ErrorCode.NONE if partition.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE
    replicas = list(partition.replicas)
    return error, partition.index, partition.leader, partition.leader_epoch, replicas, replicas
