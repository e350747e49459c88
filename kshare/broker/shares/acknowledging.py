"""Handles the acknowledgements in a request: one outcome per partition.

Decides whether ranges are well-formed: ascending, apart, one kind for all offsets or one for each. Whether they hold
is decided by the share-partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kshare.broker.authorizer import AclResource, Operation
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.broker.settings import Resource
from kshare.broker.shares.delivery import AckType
from kshare.broker.shares.sessions import TopicIdPartition
from kshare.broker.shares.share_partition import AckRange
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import share_acknowledge_request, share_fetch_request

Batches = Sequence[share_fetch_request.AcknowledgementBatch | share_acknowledge_request.AcknowledgementBatch]
_KINDS = tuple(AckType)
_RENEW = "share.renew.acknowledge.enable"


def settle(
    call: Call, group: str, member: str, acks: Mapping[TopicIdPartition, Batches], is_renewal: bool
) -> dict[TopicIdPartition, RequestError | None]:
    """None where the acknowledgements hold."""
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
    """Raises Refusal for a client that may not read the topic."""
    topic = call.broker.cluster.find(topic_partition[0])
    if topic is not None:
        call.require(Operation.READ, AclResource.TOPIC, topic.name)


def read_ranges(batches: Batches, may_renew: bool) -> list[AckRange]:
    """Raises Refusal for all of them when one is malformed."""
    ranges: list[AckRange] = []
    for batch in batches:
        kinds = batch.acknowledge_types
        if batch.first_offset < 0 or batch.first_offset > batch.last_offset:
            raise _malformed(f"offsets from {batch.first_offset} to {batch.last_offset}")
        if ranges and batch.first_offset < ranges[-1].last:
            raise _malformed("ranges ascend and don't overlap")
        if len(kinds) not in (1, batch.last_offset - batch.first_offset + 1):
            raise _malformed(f"{len(kinds)} types: one for all offsets or one for each is needed")
        most = AckType.RENEW if may_renew else AckType.REJECT
        if any(kind > most for kind in kinds):
            raise _malformed(f"types from {AckType.GAP} to {most} are known here")
        ranges.append(AckRange(batch.first_offset, batch.last_offset, tuple(_KINDS[kind] for kind in kinds)))
    return ranges


def _check_renewal(call: Call, group: str, ranges: Iterable[AckRange]) -> None:
    if call.broker.configs.is_on(Resource.GROUP, group, _RENEW):
        return
    if any(AckType.RENEW in each.kinds for each in ranges):
        raise RequestError(ErrorCode.INVALID_RECORD_STATE, f"{_RENEW} is off for this group")


def _malformed(reason: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, reason)
