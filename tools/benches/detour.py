"""A second way to the benches' broker, through a program that forwards and does nothing else: what any proxy costs.

Clients go where a broker says that it is. So this broker has one more listener, which says that it is where the
forwarder listens.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tools.benches import programs
from tools.benches.child import children
from tools.kafka.listeners import HOST
from tools.kafka.ports import free_ports

_START_DEADLINE_S = 30.0


class Doors(NamedTuple):
    """Of the broker: ports."""

    plain: int
    controller: int
    detoured: int
    forwarder: int


@functools.cache
def doors() -> Doors:
    return Doors(*free_ports(len(Doors._fields)))


def door_settings() -> dict[str, str]:
    """Of a single node whose PLAINTEXT port is `doors().plain`."""
    plain, controller, detoured, forwarder = doors()
    return {
        "listeners": ",".join(
            f"{name}://{HOST}:{port}"
            for name, port in (("PLAINTEXT", plain), ("DETOURED", detoured), ("CONTROLLER", controller))
        ),
        "advertised.listeners": f"PLAINTEXT://{HOST}:{plain},DETOURED://{HOST}:{forwarder}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,DETOURED:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
    }


@contextmanager
def forwarding() -> Iterator[str]:
    """Gives the address that clients connect to."""
    command = programs.python("forwarder", listen=doors().forwarder, to=doors().detoured)
    with children([command]) as ((forwarder,), _):
        forwarder.hear(_START_DEADLINE_S)
        yield f"{HOST}:{doors().forwarder}"
