"""Hints for connections that fail immediately, from the first bytes received or the moment of the disconnect.

Decides what to suggest if a connection ends before it is usable: it isn't a Kafka listener, or needs other security.
"""

from __future__ import annotations

from kshare.net.settings import Security

FIRST_BYTES = 4
"""How many of the first bytes received to keep."""
_CLI = " (on the command line: configure it with --command-config)"
_TLS_ALERT, _HTTP = b"\x15\x03", b"HTTP"


class Proof:
    """Whether a connection with the same settings was usable once: then the settings are right, and brokers stop."""

    def __init__(self) -> None:
        self.is_given = False


def connect_hint(
    opening: bytes, security: Security, *, responses: int, is_waiting: bool, is_proven: bool = False
) -> str:
    """A hint to append to the reason of the disconnect; empty if nothing seems wrong."""
    if opening.startswith(_TLS_ALERT):
        return f"; it looks like TLS: add tls=True{_CLI}"
    if opening.startswith(_HTTP):
        return "; it looks like HTTP: this isn't a Kafka listener"
    if is_proven:
        return ""
    if responses == 0 and security.tls is True and security.cert_file is None:
        return f"; if its listener requires a client certificate, set cert_file{_CLI}"
    if responses == 0 and is_waiting and security.tls is False:
        return f"; if its listener requires TLS or SASL, set tls or sasl_mechanism{_CLI}"
    if responses <= 1 and is_waiting and security.sasl_mechanism is None:
        return f"; if its listener requires SASL, set sasl_mechanism{_CLI}"
    return ""
