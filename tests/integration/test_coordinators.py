"""Which of three brokers responds to which request about a share group."""

from __future__ import annotations

import base64

import anyio
import anyio.to_thread
import pytest

from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    DescribeShareGroupOffsetsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    ReadShareGroupStateSummaryRequest,
)
from kshare.protocol.messages import describe_share_group_offsets_request as offsets
from kshare.protocol.messages import read_share_group_state_summary_request as state
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from tests.helpers.plain_client import plain_client
from tests.integration.behaviour.work_queue import WorkQueue, take
from tests.integration.conftest import StartCluster
from tools.kafka.cluster import Cluster
from tools.kafka.jars import NEWEST_RELEASE

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio]

GROUP_KEY, SHARE_KEY = 0, 2


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_rule_14_only_the_coordinators_respond_to_requests_for_offsets_and_state(
    start_cluster: StartCluster,
) -> None:
    cluster = await anyio.to_thread.run_sync(start_cluster, NEWEST_RELEASE, 3)
    queue = WorkQueue(cluster, "work", "workers")
    cluster.create_topic(queue.topic)
    await queue.configure_group({"share.auto.offset.reset": "earliest"})
    await queue.produce(1)
    async with queue.consumer() as source:
        await take(source, 1)
        await source.commit()
    await anyio.to_thread.run_sync(ask_everybody, cluster, queue)


def ask_everybody(cluster: Cluster, queue: WorkQueue) -> None:
    with plain_client(cluster.nodes[0].address()) as client:
        topic_id = client.ask(MetadataRequest([MetadataRequestTopic(name=queue.topic)])).topics[0].topic_id
        key = f"{queue.group}:{base64.urlsafe_b64encode(topic_id).rstrip(b'=').decode()}:0"
        of_group = client.ask(FindCoordinatorRequest(key_type=GROUP_KEY, coordinator_keys=[queue.group]))
        of_state = client.ask(FindCoordinatorRequest(key_type=SHARE_KEY, coordinator_keys=[key]))
    for node in cluster.nodes:
        with plain_client(node.address()) as client:
            # Any broker responds for named partitions (measured on 4.4.0), but only the coordinator for all of a group.
            everything = offsets.DescribeShareGroupOffsetsRequestGroup(queue.group, None)
            (group,) = client.ask(DescribeShareGroupOffsetsRequest([everything])).groups
            assert {group.error_code} - {ErrorCode.NONE} == refusal(
                node.id == of_group.coordinators[0].node_id
            ), group
            wanted = state.ReadStateSummaryData(topic_id, [state.PartitionData(0, 0)])
            (found,) = client.ask(ReadShareGroupStateSummaryRequest(queue.group, [wanted])).results
            said = {row.error_code for row in found.partitions}
            assert said - {ErrorCode.NONE} == refusal(node.id == of_state.coordinators[0].node_id), found


def refusal(is_coordinator: bool) -> set[int]:
    return set() if is_coordinator else {ErrorCode.NOT_COORDINATOR}
