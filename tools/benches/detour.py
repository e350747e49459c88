"""A connection to the broker through a program that only forwards, which shows what any proxy costs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tools.benches import programs
from tools.benches.broker import broker, detour_port
from tools.benches.child import children
from tools.kafka.listeners import HOST, Listener

_START_DEADLINE_S = 30.0


@contextmanager
def forwarding() -> Iterator[str]:
    """Yield the address that clients connect to."""
    _, door = broker().nodes[0].address(Listener.DETOURED)
    with children([programs.python("forwarder", listen=detour_port(), to=door)]) as ((forwarder,), _):
        forwarder.hear(_START_DEADLINE_S)
        yield f"{HOST}:{detour_port()}"
