"""Limits how many wrong passwords are checked, so that they can't be guessed; and decides whose is checked next."""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv6Network, ip_address

import anyio

_OF_A_NAME, _OF_AN_ADDRESS = 10, 50
"""Wrong passwords in a period: of one name from one address, and of all names from one address."""
_PERIOD_S = 60.0
MOST_KEPT = 10_000
_NETWORK_BITS = 64

_Key = tuple[str, bytes]
"""An address, and a digest of a name, which may be long; without the name, all names."""


class LoginLimits:
    """Counts in periods: the first wrong password begins one."""

    def __init__(self) -> None:
        self._wrong: OrderedDict[_Key, tuple[float, int]] = OrderedDict()
        """When the period began, and how many were wrong since."""

    def __len__(self) -> int:
        """How many names and addresses are counted."""
        return len(self._wrong)

    def wait_s(self, address: str, name: str, now: float) -> float:
        """How long no password of this name is checked; 0 if it may be."""
        return max(
            self._left(key, now) if self._count(key, now) >= most else 0.0
            for key, most in self._limits(address, name)
        )

    def on_wrong(self, address: str, name: str, now: float) -> int:
        """Returns how many were wrong in this period, of this name from this address."""
        for key, _ in self._limits(address, name):
            began, count = (now, 0) if self._left(key, now) <= 0 else self._wrong[key]
            self._wrong[key] = began, count + 1
            self._wrong.move_to_end(key)
        while len(self._wrong) > MOST_KEPT:
            self._wrong.popitem(last=False)
        return self._count((network_of(address), _digest(name)), now)

    def on_right(self, address: str, name: str) -> None:
        self._wrong.pop((network_of(address), _digest(name)), None)

    def _limits(self, address: str, name: str) -> tuple[tuple[_Key, int], ...]:
        address = network_of(address)
        return ((address, _digest(name)), _OF_A_NAME), ((address, b""), _OF_AN_ADDRESS)

    def _left(self, key: _Key, now: float) -> float:
        """Seconds until the period ends."""
        began, _ = self._wrong.get(key, (now - _PERIOD_S, 0))
        return began + _PERIOD_S - now

    def _count(self, key: _Key, now: float) -> int:
        return self._wrong[key][1] if self._left(key, now) > 0 else 0


def network_of(address: str) -> str:
    """An IPv6 network is one address: whoever has one has all of it."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv4Address):
        return address
    return str(found.ipv4_mapped or IPv6Network((found, _NETWORK_BITS), strict=False))


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()


class LoginTurns:
    """One password is checked at a time, and of each network one waits for that, the others behind it.

    Checking a password is slow on purpose. However many are sent from one address, a login from another waits for one
    of them at most.
    """

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
