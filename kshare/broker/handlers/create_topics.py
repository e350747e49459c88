"""CreateTopics v2-7, on any node.

v2: the first supported version.
v3: when a quota is exceeded, the response is sent before throttling.
v4: -1 means the broker's default number of partitions or replicas.
v5: the response adds TopicConfigErrorCode, NumPartitions, ReplicationFactor and Configs; flexible, with
    compact lengths and tagged fields.
v6: may return THROTTLING_QUOTA_EXCEEDED.
v7: the response adds TopicId.
"""

from __future__ import annotations

from collections import Counter

from kshare.broker.cluster import MAX_NEW_PARTITIONS
from kshare.broker.config_entries import entries
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.broker.settings import Resource
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import CreateTopicsRequest, CreateTopicsResponse
from kshare.protocol.messages.create_topics_request import CreatableTopic
from kshare.protocol.messages.create_topics_response import CreatableTopicConfigs, CreatableTopicResult


async def handle(request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    default = call.broker.configs.broker_number("num.partitions")
    if sum(_partitions(topic, default) for topic in request.topics) > MAX_NEW_PARTITIONS:
        reason = "Excessively large number of partitions per request."
        refusal = RequestError(ErrorCode.POLICY_VIOLATION, reason)
        names = dict.fromkeys(topic.name for topic in request.topics)
        return CreateTopicsResponse(topics=[_refused(name, refusal) for name in names])
    named = Counter(topic.name for topic in request.topics)
    results = []
    for name, topic in {topic.name: topic for topic in request.topics}.items():
        if named[name] > 1:
            duplicate = RequestError(ErrorCode.INVALID_REQUEST, f"Duplicate topic name: {name}")
            results.append(_refused(name, duplicate))
        else:
            results.append(_create(topic, request.validate_only, call))
    return CreateTopicsResponse(topics=results)


def _refused(name: str, refusal: RequestError) -> CreatableTopicResult:
    return CreatableTopicResult(name, error_code=refusal.code, error_message=refusal.message)


def _partitions(topic: CreatableTopic, default: int) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return default if topic.num_partitions == -1 else max(topic.num_partitions, 0)


def _create(topic: CreatableTopic, validate_only: bool, call: Call) -> CreatableTopicResult:
    broker = call.broker
    assignment = {each.partition_index: each.broker_ids for each in topic.assignments}
    configs = {each.name: each.value or "" for each in topic.configs if each.value is not None}
    partitions, replicas = topic.num_partitions, topic.replication_factor
    if partitions == -1:
        partitions = broker.configs.broker_number("num.partitions")
    if replicas == -1:
        replicas = broker.configs.broker_number("default.replication.factor")
    try:
        if assignment and (topic.num_partitions != -1 or topic.replication_factor != -1):
            reason = "Set either an assignment or the numbers of partitions and replicas, not both."
            raise RequestError(ErrorCode.INVALID_REQUEST, reason)
        if validate_only:
            broker.cluster.check_new_topic(topic.name, partitions, replicas, assignment, configs)
            topic_id = bytes(16)
        else:
            topic_id = broker.cluster.create_topic(topic.name, partitions, replicas, assignment, configs).id
    except RequestError as refusal:
        return _refused(topic.name, refusal)
    shown = [
        CreatableTopicConfigs(each.name, each.value, each.read_only, each.source)
        for each in entries(broker.configs, Resource.TOPIC, topic.name)
    ]
    return CreatableTopicResult(
        topic.name,
        topic_id,
        error_message=None,
        num_partitions=len(assignment) or partitions,
        replication_factor=len(next(iter(assignment.values()))) if assignment else replicas,
        configs=shown,
    )
