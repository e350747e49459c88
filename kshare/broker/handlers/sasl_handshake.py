"""SaslHandshake v0-1 on listeners without authentication. On others, `security` handles it.

v0: the first.
v1: tokens follow in SaslAuthenticate, not bare; flexible, with compact lengths and tagged fields.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import SaslHandshakeRequest, SaslHandshakeResponse


async def handle(request: SaslHandshakeRequest, call: Call) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
