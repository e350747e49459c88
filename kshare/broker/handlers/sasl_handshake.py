"""SaslHandshake v0-1 on listeners without authentication. On others, `sasl_login` handles it.

v0: the first version.
v1: tokens are sent in SaslAuthenticate requests, not raw; flexible, with compact lengths and tagged fields.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import SaslHandshakeRequest, SaslHandshakeResponse


async def handle(request: SaslHandshakeRequest, call: Call) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
