"""Whose password is checked next: one at a time, and of each network one waits for that, the others behind it.

Checking a password is slow on purpose. However many are sent from one address, a login from another waits for one of
them at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from kshare.web.login_limits import network_of


class LoginTurns:
    def __init__(self) -> None:
        self._one = anyio.Lock()
        self._of_network: dict[str, anyio.Lock] = {}
        self._count: Counter[str] = Counter()
        """Those that wait, or whose turn it is, by network."""

    def __len__(self) -> int:
        """How many networks there are whose logins wait."""
        return len(self._of_network)

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        network = network_of(address)
        own = self._of_network.setdefault(network, anyio.Lock())
        self._count[network] += 1
        try:
            async with own, self._one:
                yield
        finally:
            self._count[network] -= 1
            if not self._count[network]:
                del self._count[network], self._of_network[network]
