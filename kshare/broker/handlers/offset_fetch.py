"""OffsetFetch v1-10: committed offsets of one group, or since v8 of several; by topic id since v10.

v1: the first supported version.
v2: null means all topics; the response adds ErrorCode.
v3: the response adds ThrottleTimeMs.
v4: when a quota is exceeded, the response is sent before throttling.
v5: the response adds CommittedLeaderEpoch.
v6: flexible, with compact lengths and tagged fields.
v7: the request adds RequireStable.
v8: the request adds Groups and drops GroupId and Topics; the response adds Groups and drops Topics and
    ErrorCode.
v9: the request adds MemberId and MemberEpoch.
v10: the request adds TopicId and drops Name; the response adds TopicId and drops Name.
"""

from __future__ import annotations

from kshare.broker.classic_groups.offsets import CommittedOffset, TopicPartition
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import OffsetFetchRequest, OffsetFetchResponse
from kshare.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kshare.protocol.messages.offset_fetch_response import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_SEVERAL_SINCE = 8
_BY_ID_SINCE = 10
_NONE = CommittedOffset(-1)


async def handle(request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    if call.version >= _SEVERAL_SINCE:
        groups = [_fetch(group, request.require_stable, call) for group in request.groups]
        return OffsetFetchResponse(groups=groups)
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    wanted = OffsetFetchRequestGroup(request.group_id, topics=topics)
    found = _fetch(wanted, request.require_stable, call)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(
                        each.partition_index,
                        each.committed_offset,
                        each.committed_leader_epoch,
                        each.metadata,
                        found.error_code or each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in found.topics
        ],
        error_code=found.error_code,
    )


def _fetch(wanted: OffsetFetchRequestGroup, stable_only: bool, call: Call) -> OffsetFetchResponseGroup:
    result = OffsetFetchResponseGroup(wanted.group_id)
    try:
        call.require_group_coordinator(wanted.group_id)
        call.broker.consumer_groups.check_fetch(wanted.group_id, wanted.member_id, wanted.member_epoch)
    except RequestError as refusal:
        result.error_code = refusal.code
        return result
    offsets = call.broker.classic_groups.offsets
    committed = offsets.of(wanted.group_id)
    topics = _all_topics(committed, call) if wanted.topics is None else wanted.topics
    for topic in topics:
        name = topic.name
        if call.version >= _BY_ID_SINCE:
            found = call.broker.cluster.find(topic.topic_id)
            name = found.name if found else ""
        rows = []
        for index in topic.partition_indexes:
            offset = committed.get((name, index), _NONE)
            code = ErrorCode.NONE
            if not name:
                code = ErrorCode.UNKNOWN_TOPIC_ID
            elif stable_only and offsets.is_pending(wanted.group_id, (name, index)):
                code, offset = ErrorCode.UNSTABLE_OFFSET_COMMIT, _NONE
            rows.append(
                OffsetFetchResponsePartitions(
                    index, offset.offset, offset.leader_epoch, offset.metadata, code
                )
            )
        result.topics.append(OffsetFetchResponseTopics(topic.name, topic.topic_id, rows))
    return result


def _all_topics(
    committed: dict[TopicPartition, CommittedOffset], call: Call
) -> list[OffsetFetchRequestTopics]:
    by_topic: dict[str, list[int]] = {}
    for name, index in sorted(committed):
        by_topic.setdefault(name, []).append(index)
    found = []
    for name, indexes in by_topic.items():
        topic = call.broker.cluster.find(name)
        found.append(OffsetFetchRequestTopics(name, topic.id if topic else bytes(16), indexes))
    return found
