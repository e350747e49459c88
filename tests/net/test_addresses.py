"""Which addresses are the machine's own."""

from __future__ import annotations

from kshare.net.addresses import is_loopback


def test_the_machines_own_addresses() -> None:
    for host in ("localhost", "LocalHost", "127.0.0.1", "127.1.2.3", "::1"):
        assert is_loopback(host), host
    for host in ("0.0.0.0", "::", "192.0.2.7", "localhost.example", "kafka"):
        assert not is_loopback(host), host
