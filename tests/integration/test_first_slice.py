"""The whole protocol with only codecs and a socket: a member joins, fetches and acknowledges."""

from __future__ import annotations

import base64
import time
import uuid

import pytest
from kafka import KafkaProducer

from kshare.protocol.messages import (
    DescribeShareGroupOffsetsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
)
from kshare.protocol.messages import share_acknowledge_request as acknowledge
from kshare.protocol.messages import share_fetch_request as fetch
from kshare.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from kshare.protocol.messages.share_fetch_response import AcquiredRecords, PartitionData
from tests.helpers.plain_client import DEADLINE_S, PlainClient, plain_client
from tests.integration.conftest import FreshGroup, FreshTopic
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.java]

RECORDS = 50
ACCEPT, RELEASE, RENEW = b"\x01", b"\x02", b"\x04"


class Member:
    """One member of a share group on one partition, with hand-made requests."""

    def __init__(self, client: PlainClient, group: str, topic: str) -> None:
        self.client = client
        self.group = group
        self.topic = topic
        # 4.1 only accepts member ids in Kafka's own form of a UUID
        self.id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        metadata = client.ask(MetadataRequest([MetadataRequestTopic(name=topic)]))
        self.topic_id = metadata.topics[0].topic_id
        self.session_epoch = 0

    def join(self) -> None:
        self.client.ask(FindCoordinatorRequest(coordinator_keys=[self.group]))
        epoch, deadline = 0, time.monotonic() + DEADLINE_S
        while True:
            beat = ShareGroupHeartbeatRequest(
                self.group, self.id, epoch, None, None if epoch else [self.topic]
            )
            response = self.client.ask(beat)
            assert response.error_code == 0, response
            epoch = response.member_epoch
            if response.assignment and response.assignment.topic_partitions:
                (assigned,) = response.assignment.topic_partitions
                assert (assigned.topic_id, assigned.partitions) == (self.topic_id, [0])
                return
            assert time.monotonic() < deadline, "no assignment in time"
            time.sleep(0.1)

    def leave(self) -> None:
        response = self.client.ask(ShareGroupHeartbeatRequest(self.group, self.id, -1))
        assert (response.error_code, response.member_epoch) == (0, -1)

    def fetch(self, max_wait_ms: int) -> PartitionData | None:
        partitions = [] if self.session_epoch else [fetch.FetchPartition(0)]
        request = ShareFetchRequest(
            group_id=self.group,
            member_id=self.id,
            share_session_epoch=self.session_epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_records=500,
            batch_size=500,
            topics=[fetch.FetchTopic(self.topic_id, partitions)] if partitions else [],
        )
        response = self.client.ask(request)
        assert response.error_code == 0, response
        self.session_epoch += 1
        found = [partition for topic in response.responses for partition in topic.partitions]
        assert all(partition.error_code == 0 for partition in found), found
        return found[0] if found else None

    def fetch_until_acquired(self) -> PartitionData:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            partition = self.fetch(max_wait_ms=500)
            if partition and partition.acquired_records:
                return partition
        raise AssertionError("no records were acquired in time")

    def acknowledge(self, ranges: list[AcquiredRecords], kind: bytes, renew: bool = False) -> int:
        batches = [acknowledge.AcknowledgementBatch(r.first_offset, r.last_offset, kind) for r in ranges]
        topic = acknowledge.AcknowledgeTopic(self.topic_id, [acknowledge.AcknowledgePartition(0, batches)])
        request = ShareAcknowledgeRequest(self.group, self.id, self.session_epoch, renew, [topic])
        response = self.client.ask(request)
        assert response.error_code == 0, response
        self.session_epoch += 1
        return response.responses[0].partitions[0].error_code

    def start_offset(self) -> int:
        """The group's start offset, as last persisted. Everything before it is settled.

        The broker advances it after it has persisted an acknowledgement, so it shows only after the next write.
        """
        topics = [DescribeShareGroupOffsetsRequestTopic(self.topic, [0])]
        groups = [DescribeShareGroupOffsetsRequestGroup(self.group, topics)]
        response = self.client.ask(DescribeShareGroupOffsetsRequest(groups))
        return response.groups[0].topics[0].partitions[0].start_offset


def produce(kafka: Cluster, topic: str, count: int = RECORDS) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    try:
        for number in range(count):
            producer.send(topic, b"record %d" % number)
        producer.flush(timeout=DEADLINE_S)
    finally:
        producer.close()


def offsets(ranges: list[AcquiredRecords]) -> list[int]:
    return [offset for r in ranges for offset in range(r.first_offset, r.last_offset + 1)]


def test_accepted_records_are_not_delivered_again(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, group = fresh_topic(), fresh_group()
    produce(kafka, topic)
    with plain_client(kafka.nodes[0].address()) as client:
        member = Member(client, group, topic)
        member.join()

        first = member.fetch_until_acquired()
        assert offsets(first.acquired_records) == list(range(RECORDS))
        assert {r.delivery_count for r in first.acquired_records} == {1}
        assert bytes(first.records).count(b"record ") == RECORDS

        assert member.acknowledge(first.acquired_records, RELEASE) == 0
        again = member.fetch_until_acquired()
        assert offsets(again.acquired_records) == list(range(RECORDS))
        assert {r.delivery_count for r in again.acquired_records} == {2}

        assert member.acknowledge(again.acquired_records, ACCEPT) == 0
        produce(kafka, topic, 1)
        only_the_new = member.fetch_until_acquired()
        assert offsets(only_the_new.acquired_records) == [RECORDS]
        assert member.acknowledge(only_the_new.acquired_records, ACCEPT) == 0
        assert member.start_offset() == RECORDS
        member.leave()


def test_a_lease_is_renewed_if_the_broker_supports_it(
    kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
) -> None:
    topic, group = fresh_topic(), fresh_group()
    produce(kafka, topic)
    with plain_client(kafka.nodes[0].address()) as client:
        member = Member(client, group, topic)
        member.join()
        acquired = member.fetch_until_acquired().acquired_records
        if client.version_of(ShareAcknowledgeRequest()) >= 2:
            assert member.acknowledge(acquired, RENEW, renew=True) == 0
        else:
            assert kafka.release.startswith("4.1.")
        assert member.acknowledge(acquired, ACCEPT) == 0
        member.leave()
