"""Some wrong doors can be told by what they say first, or by when they hang up.

Decides what to suggest when a connection has ended that never was one to a Kafka listener that takes us.
"""

from __future__ import annotations

from kshare.net.settings import Security

FIRST_WORDS = 4
"""How many bytes of what is said first to remember."""
_TLS_ALERT, _HTTP = b"\x15\x03", b"HTTP"


def guess(opening: bytes, security: Security, *, answers: int, is_waiting: bool) -> str:
    """To be put behind the reason why it ended; empty where nothing seems wrong."""
    if opening.startswith(_TLS_ALERT):
        return "; it looks like TLS: add tls=True"
    if opening.startswith(_HTTP):
        return "; it looks like HTTP: this isn't a Kafka listener"
    if answers == 0 and security.tls is True and security.cert_file is None:
        return "; if its listener asks for a certificate of ours, set cert_file"
    if answers == 0 and is_waiting and security.tls is False:
        return "; if its listener asks for TLS or SASL, set tls or sasl_mechanism"
    if answers <= 1 and is_waiting and security.sasl_mechanism is None:
        return "; if its listener asks for SASL, set sasl_mechanism"
    return ""
