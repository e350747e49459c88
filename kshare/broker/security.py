"""A listener's security: TLS, SASL, both or neither.

`authorizer` decides what an authenticated client may do.
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
    """The time after which clients must re-authenticate; 0: never."""

    def login(self) -> Login | None:
        """The authentication of one connection, or None if it isn't required."""
        if not self.users:
            return None
        from kshare.broker.sasl_login import Login

        return Login(self)
