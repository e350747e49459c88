"""FindCoordinator v0-6: for groups, transactions and share-partitions. Creates the internal topic if necessary.

v0: the first version.
v1: the request adds KeyType; the response adds ThrottleTimeMs and ErrorMessage.
v2: when a quota is exceeded, the response is sent before throttling.
v3: flexible, with compact lengths and tagged fields.
v4: the request adds CoordinatorKeys and drops Key; the response adds Coordinators and drops ErrorCode,
    ErrorMessage, NodeId, Host and Port.
v5: may return TRANSACTION_ABORTABLE.
v6: key type 2, for share-partitions.
"""

from __future__ import annotations

from kshare.broker.authorizer import CLUSTER_NAME, AclResource, Operation
from kshare.broker.cluster import COORDINATED_BY, GROUP_KEY, SHARE_KEY
from kshare.broker.connection import Call
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.json_form import uuid_bytes
from kshare.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse
from kshare.protocol.messages.find_coordinator_response import Coordinator

_SHARE_SINCE = 6
_BATCHED_SINCE = 4


async def handle(request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
    keys = request.coordinator_keys if call.version >= _BATCHED_SINCE else [request.key]
    found = [_find(request.key_type, key, call) for key in keys]
    if call.version >= _BATCHED_SINCE:
        return FindCoordinatorResponse(coordinators=found)
    (coordinator,) = found
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


def _find(kind: int, key: str, call: Call) -> Coordinator:
    error, message = _problem(kind, key, call)
    if not error:
        node = call.broker.cluster.coordinator(kind, key)
        if node is not None:
            return Coordinator(key, node.id, node.host, node.port)
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return Coordinator(key, -1, "", -1, error, message)


def _problem(kind: int, key: str, call: Call) -> tuple[ErrorCode, str | None]:
    if kind not in COORDINATED_BY or (kind == SHARE_KEY and call.version < _SHARE_SINCE):
        return ErrorCode.INVALID_REQUEST, f"unknown coordinator key type: {kind}"
    if kind == SHARE_KEY and not _is_share_key(key):
        return ErrorCode.INVALID_REQUEST, "the key of a share coordinator must be group:topicId:partition"
    if kind == GROUP_KEY and not call.is_authorized(Operation.DESCRIBE, AclResource.GROUP, key):
        return AclResource.GROUP.refusal, None
    if kind == SHARE_KEY and not call.is_authorized(
        Operation.CLUSTER_ACTION, AclResource.CLUSTER, CLUSTER_NAME
    ):
        return AclResource.CLUSTER.refusal, None
    return ErrorCode.NONE, None


def _is_share_key(key: str) -> bool:
    try:
        _group, topic_id, partition = key.rsplit(":", 2)
        uuid_bytes(topic_id)
        return not key.startswith(":") and int(partition) >= 0
    except ValueError:
        return False
