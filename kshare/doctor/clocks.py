"""Compares our clock with the cluster's. Locks don't depend on it, but times in options do.

Only the leader of the controllers reports its time, in DescribeQuorum. No request returns the time of other brokers.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from kshare.admin.expected_rows import expected_row
from kshare.doctor.check_result import CheckResult, ok, unknown, warning
from kshare.doctor.cluster_info import ClusterInfo
from kshare.errors import BrokerError, Unsupported
from kshare.net.permissions import Right, grant
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DescribeQuorumRequest
from kshare.protocol.messages.describe_quorum_request import PartitionData, TopicData

_CHECK = "clock"
_METADATA_LOG = "__cluster_metadata"
_TOLERATED_S = 2.0
_REQUEST = DescribeQuorumRequest([TopicData(_METADATA_LOG, [PartitionData(0)])])


async def clocks(info: ClusterInfo) -> AsyncIterator[CheckResult]:
    sent_at = time.time()
    try:
        response = await info.router.ask_any(_REQUEST, lambda response: ())
    except Unsupported as error:
        yield unknown(_CHECK, f"no broker reports its time: {error}")
        return
    received_at = time.time()
    if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        right = Right("Describe", "cluster")
        command = grant(right, info.pool.settings)
        yield unknown(_CHECK, f"the controllers' time can't be read without {right}", command)
        return
    if response.error_code:
        yield unknown(_CHECK, str(BrokerError(response.error_code, "the controllers' time")))
        return
    topic = expected_row(response.topics, "DescribeQuorum", f"topic {_METADATA_LOG}")
    partition = expected_row(topic.partitions, "DescribeQuorum", f"the partition of topic {_METADATA_LOG}")
    leader = next(
        (voter for voter in partition.current_voters if voter.replica_id == partition.leader_id), None
    )
    if leader is None or leader.last_fetch_timestamp < 0:
        yield unknown(_CHECK, "the controllers don't report their time")
        return
    # The clock was read at some time between request and response.
    ahead = leader.last_fetch_timestamp / 1000 - (sent_at + received_at) / 2
    uncertainty = (received_at - sent_at) / 2
    name = f"controller {partition.leader_id}"
    if abs(ahead) - uncertainty <= _TOLERATED_S:
        yield ok(_CHECK, f"{name} and this machine agree within {abs(ahead) + uncertainty:.1f} s")
    else:
        yield warning(
            _CHECK,
            f"the clock of {name} is {abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} "
            "this machine's: offset resets to a time, record ages, retention and tokens depend on them",
            "timedatectl status   # on both machines: is time synchronised?",
        )
