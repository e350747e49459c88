"""GetTelemetrySubscriptions v0: which metrics a client should push, how often, and with which compression.

v0: the first version.
"""

from __future__ import annotations

from kshare.broker.client_metrics import ACCEPTED_COMPRESSION, ClientIdentity
from kshare.broker.connection import Call
from kshare.protocol.messages import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse


async def handle(request: GetTelemetrySubscriptionsRequest, call: Call) -> GetTelemetrySubscriptionsResponse:
    is_known = any(request.client_instance_id)
    instance_id = request.client_instance_id if is_known else call.broker.new_uuid()
    clients = call.broker.client_metrics
    subscription = clients.subscribe(instance_id, identity(call), call.now)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=subscription.id,
        accepted_compression_types=bytes(ACCEPTED_COMPRESSION),
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=clients.max_bytes,
        delta_temporality=True,
        requested_metrics=list(subscription.metrics),
    )


def identity(call: Call) -> ClientIdentity:
    connection = call.connection
    return ClientIdentity(call.client_id or "", *connection.software, connection.peer, connection.port)
