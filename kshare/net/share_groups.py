"""Checks that a broker supports share groups; errors say what is missing and what to do."""

from __future__ import annotations

from kshare.errors import Unsupported
from kshare.net.connection import Connection
from kshare.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest, ShareGroupHeartbeatRequest

FEATURE = "share.version"
_NEEDED = (ShareGroupHeartbeatRequest, ShareFetchRequest, ShareAcknowledgeRequest)


def require_share_groups(connection: Connection) -> None:
    """Raises Unsupported unless members can join, fetch and acknowledge here. Sends no request."""
    peer, versions = connection.peer, connection.versions
    for request in _NEEDED:
        if request.API_KEY not in versions.ranges:
            raise Unsupported(
                f"{peer} doesn't know {request.NAME.removesuffix('Request')}: share groups need Kafka 4.1 or newer "
                "(they are enabled by default from 4.2 on); upgrade the brokers"
            )
        if versions.common(request) is None:
            raise Unsupported(versions.explain_missing(request, peer))
    if versions.features.get(FEATURE, 0) < 1:
        if versions.possible_features.get(FEATURE, 1) < 1:
            raise Unsupported(
                f"{peer} can't run {FEATURE}=1: share groups need Kafka 4.1 or newer on every broker"
            )
        raise Unsupported(
            f"share groups are disabled in the cluster of {peer} ({FEATURE} is 0, the default in Kafka 4.1): "
            f"run kafka-features.sh --bootstrap-server {peer} upgrade --feature {FEATURE}=1"
        )
