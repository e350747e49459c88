"""Frames: surplus bytes."""

from __future__ import annotations

from kshare.traffic.exchange import Exchange
from kshare.traffic.findings import LinterRule, Severity, Violation, Violations, surplus_text


class SurplusBytes(LinterRule):
    name = "surplus-bytes"
    level = Severity.HARMFUL
    about = (
        "Bytes are left over after a message. Brokers ignore them, so the request works, but brokers read something "
        "other than the sender meant: librdkafka asks for all topics (Metadata from v9 on) with a count of four "
        "bytes where one "
        "belongs, and what follows is ignored."
    )

    def on_surplus(self, exchange: Exchange) -> Violations:
        for what, size in (("request", exchange.request_surplus), ("response", exchange.response_surplus)):
            if size:
                yield Violation(
                    None,
                    f"{exchange.api} v{exchange.version}: {surplus_text(size)} after the {what}",
                    (exchange.api_key, exchange.version, exchange.client_id, what),
                    exchange.client_id,
                )


RULES = (SurplusBytes,)
