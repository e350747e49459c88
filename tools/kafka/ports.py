"""Chooses free ports and keeps them reserved, even while a broker is down or hasn't started to listen yet.

The process that reserves a port keeps a UDP socket on the same number open until it ends. That doesn't conflict with
brokers, which use TCP, but prevents that another of our processes gets the same port.
"""

from __future__ import annotations

import random
import socket

from tools.kafka.listeners import HOST

# Below the range that systems use for outgoing connections: a broker that restarts must find its port free, and a
# client that connects to the port of a stopped broker must not get the same port as its own by chance.
_RANGE = range(20_000, 32_000)
_ATTEMPTS = 1000


def free_ports(count: int) -> list[int]:
    """Reserve this many different ports that are free. No other process gets them while this one runs."""
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
        mark.detach()  # left open: the system closes it when the process ends
    return True


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
