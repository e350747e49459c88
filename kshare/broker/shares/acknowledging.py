"""Handles the acknowledgements in a request: one outcome per partition.

Checks that ranges are well-formed: they ascend, don't overlap, and have one acknowledgement type for all offsets or one
for each. The share-partition decides whether they are accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kshare.broker.authorizer import AclResource, Operation
from kshare.broker.cluster import TopicIdPartition
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.broker.settings import Resource
from kshare.broker.shares.share_partition import AckRange
from kshare.protocol.acknowledge_types import AcknowledgeType
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import share_acknowledge_request, share_fetch_request

Batches = Sequence[share_fetch_request.AcknowledgementBatch | share_acknowledge_request.AcknowledgementBatch]
_RENEW = "share.renew.acknowledge.enable"


def settle(
    call: Call, group: str, member: str, acks: Mapping[TopicIdPartition, Batches], is_renewal: bool
) -> dict[TopicIdPartition, RequestError | None]:
    """The error of each partition, or None if its acknowledgements are accepted."""
    outcomes: dict[TopicIdPartition, RequestError | None] = {}
    for topic_partition, batches in acks.items():
        try:
            ranges = read_ranges(batches, is_renewal)
            check_topic(call, topic_partition)
            leader = call.broker.shares.find(group, topic_partition, call.node)
            if is_renewal:
                _check_renewal(call, group, ranges)
            leader.acknowledge(member, ranges)
        except RequestError as refusal:
            outcomes[topic_partition] = refusal
        else:
            outcomes[topic_partition] = None
    return outcomes


def check_topic(call: Call, topic_partition: TopicIdPartition) -> None:
    """Raises RequestError if the client is not authorized to read the topic."""
    topic = call.broker.cluster.find(topic_partition[0])
    if topic is not None:
        call.require(Operation.READ, AclResource.TOPIC, topic.name)


def read_ranges(batches: Batches, may_renew: bool) -> list[AckRange]:
    """Parse the ranges. If one is malformed, raises RequestError for all of them."""
    ranges: list[AckRange] = []
    allowed = [kind for kind in AcknowledgeType if kind.is_final or may_renew]
    for batch in batches:
        kinds = batch.acknowledge_types
        if batch.first_offset < 0 or batch.first_offset > batch.last_offset:
            raise _malformed(f"invalid offsets: {batch.first_offset} to {batch.last_offset}")
        if ranges and batch.first_offset < ranges[-1].last:
            raise _malformed("ranges must ascend and must not overlap")
        if len(kinds) not in (1, batch.last_offset - batch.first_offset + 1):
            raise _malformed(
                f"{len(kinds)} acknowledgement types: expected one for all offsets or one for each"
            )
        if not set(kinds).issubset(allowed):
            raise _malformed(
                f"acknowledgement types must be between {min(allowed)} and {max(allowed)} (inclusive)"
            )
        ranges.append(AckRange(batch.first_offset, batch.last_offset, tuple(map(AcknowledgeType, kinds))))
    return ranges


def _check_renewal(call: Call, group: str, ranges: Iterable[AckRange]) -> None:
    if call.broker.configs.is_on(Resource.GROUP, group, _RENEW):
        return
    if any(AcknowledgeType.RENEW in each.kinds for each in ranges):
        raise RequestError(ErrorCode.INVALID_RECORD_STATE, f"{_RENEW} is off for this group")


def _malformed(reason: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, reason)
