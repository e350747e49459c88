"""SaslAuthenticate v0-2 on listeners without authentication. On others, `sasl_login` handles it.

v0: the first version.
v1: the response adds SessionLifetimeMs.
v2: flexible, with compact lengths and tagged fields.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import SaslAuthenticateRequest, SaslAuthenticateResponse


async def handle(request: SaslAuthenticateRequest, call: Call) -> SaslAuthenticateResponse:
    reason = "SaslAuthenticate request received after successful authentication"
    return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, reason)
