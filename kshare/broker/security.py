"""A listener's security: TLS, SASL, both or neither.

What somebody may do who is in, is the subject of `authorizer`.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kshare.broker.sasl_login import Login


@dataclass(frozen=True, slots=True)
class Security:
    """Security of a listener. Without users, clients don't have to authenticate."""

    tls: ssl.SSLContext | None = None
    users: Mapping[str, str] = field(default_factory=dict)
    """Name → password, for SASL PLAIN and SCRAM."""
    session_lifetime_ms: int = 0
    """How long a login lasts until clients must re-authenticate; 0 for ever."""

    def login(self) -> Login | None:
        """What one connection has to go through."""
        if not self.users:
            return None
        from kshare.broker.sasl_login import Login

        return Login(self)
