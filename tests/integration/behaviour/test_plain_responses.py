"""What clients of any kind show to their users: which records were refused, and what a user may do."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    DescribeClusterRequest,
    DescribeGroupsRequest,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    ProduceRequest,
    ShareGroupDescribeRequest,
)
from kshare.protocol.messages.describe_topic_partitions_request import TopicRequest
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from kshare.protocol.messages.produce_request import PartitionProduceData, TopicProduceData
from kshare.protocol.record_builder import BatchBuilder
from tests.integration.conversation.classic_scripts import Member, new_group
from tests.integration.conversation.sharer import Sharer
from tests.integration.conversation.talk import Talk
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka]

ON_TOPIC, ON_GROUP, ON_CLUSTER, NOT_ASKED = 3576, 3400, 8096, -(1 << 31)
"""Bit fields of all operations."""


def test_refused_records_are_named(kafka: Cluster) -> None:
    with Talk(kafka.nodes[0].address()) as talk:
        topic = talk.topic("compacted", settings={"cleanup.policy": "compact"})
        data = TopicProduceData(
            name=topic, partition_data=[PartitionProduceData(0, batch(b"k", None, b"k", None))]
        )
        for version in (7, 8):
            response = talk.wait_for(
                lambda: ProduceRequest(None, -1, 10_000, [data]),
                lambda response: result(response).error_code == ErrorCode.INVALID_RECORD,
                version,
            )
            reason = f"Compacted topic cannot accept message without key in topic partition {topic}-0"
            refused = {
                error.batch_index: error.batch_index_error_message for error in result(response).record_errors
            }
            assert refused == ({1: reason, 3: reason} if version == 8 else {})
            assert (result(response).base_offset, result(response).log_start_offset) == (-1, 0)
        assert str(result(response).error_message).startswith(
            "One or more records have been rejected due to 2 record errors in total, and only showing the first three "
            f"errors at most: [RecordError(batchIndex=1, message='{reason}'), "
        )


def test_authorized_operations_are_told_to_those_who_ask(kafka: Cluster) -> None:
    with Talk(kafka.nodes[0].address()) as talk:
        topic, shared = talk.topic("orders"), talk.group("sharers")
        for version, asked in ((10, True), (10, False), (12, True)):
            names = [MetadataRequestTopic(name=name) for name in (topic, talk.name("missing"))]
            request = MetadataRequest(names, False, asked and version == 10, asked)
            metadata: Any = talk.quietly(request, version=version)
            expected = ON_TOPIC if asked else NOT_ASKED
            assert [row.topic_authorized_operations for row in metadata.topics] == [expected] * 2
            on_cluster = ON_CLUSTER if asked and version == 10 else NOT_ASKED
            assert metadata.cluster_authorized_operations == on_cluster
        described: Any = talk.quietly(DescribeTopicPartitionsRequest([TopicRequest(topic)]))
        assert described.topics[0].topic_authorized_operations == ON_TOPIC
        sharer = Sharer(talk, shared, topic)
        sharer.join()
        classic = new_group(talk)
        member = Member(talk, classic, "member")
        member.join(b"")
        # Kafka 4.1 describes a group only once its first record is committed, which may be after the join's response.
        talk.wait_for(
            lambda: DescribeGroupsRequest([classic]),
            lambda response: response.groups[0].error_code == ErrorCode.NONE,
        )
        for asked in (True, False):
            cluster: Any = talk.quietly(DescribeClusterRequest(asked))
            assert cluster.cluster_authorized_operations == (ON_CLUSTER if asked else NOT_ASKED)
            groups: Any = talk.quietly(ShareGroupDescribeRequest([shared, talk.name("none")], asked)).groups
            expected = ON_GROUP if asked else NOT_ASKED
            found = {row.group_id: row.authorized_operations for row in groups}
            assert (found.pop(shared), *found.values()) == (expected, NOT_ASKED)
            groups = talk.quietly(DescribeGroupsRequest([classic], asked)).groups
            assert [row.authorized_operations for row in groups] == [expected]
        sharer.leave()
        member.leave()


def result(response: Any) -> Any:
    return response.responses[0].partition_responses[0]


def batch(*keys: bytes | None) -> bytes:
    builder = BatchBuilder()
    for key in keys:
        builder.append(b"value", key=key, timestamp=time.time_ns() // 1_000_000)
    return bytes(builder.build())
