"""PushTelemetry v0: stores the metrics that a client pushes. The last push of each client is kept.

v0: the first version.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.broker.handlers.get_telemetry_subscriptions import identity
from kshare.protocol.messages import PushTelemetryRequest, PushTelemetryResponse


async def handle(request: PushTelemetryRequest, call: Call) -> PushTelemetryResponse:
    call.broker.client_metrics.push(request, identity(call), call.now)
    return PushTelemetryResponse()
