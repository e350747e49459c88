"""Chooses free ports that stay ours while a broker is down, and before it listens for the first time.

Whoever is given a port keeps a UDP socket on the same number until its process ends, however it ends. Brokers speak
TCP, so that is in nobody's way, and no other process of ours is given the port meanwhile.
"""

from __future__ import annotations

import random
import socket

from tools.kafka.listeners import HOST

# Below the range that systems give to outgoing connections: a broker that restarts must find its port free,
# and a client that dials a dead broker's port must not by chance be given that same port as its own.
_RANGE = range(20_000, 32_000)
_ATTEMPTS = 1000


def free_ports(count: int) -> list[int]:
    """That many different ports that nobody listens on, and that nobody else is given while this process lives."""
    found: set[int] = set()
    for _ in range(_ATTEMPTS):
        if len(found) == count:
            return sorted(found)
        candidate = random.choice(_RANGE)
        if _reserve(candidate):
            found.add(candidate)
    raise RuntimeError(f"No {count} free ports between {_RANGE.start} and {_RANGE.stop}.")


def _reserve(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mark:
        try:
            mark.bind((HOST, port))
        except OSError:
            return False
        if not is_free(port):
            return False
        mark.detach()  # closed by the system alone, when the process is gone
    return True


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
