"""Which hosts are asked, of those that are announced in a topic. Pure.

Whoever may write to the topic chooses them, and could let a console knock on doors that only the console reaches. What
they gain is little: each URL is `http(s)://host:port/status`, nothing is sent but GET, no redirect is followed, and of
the response only what a worker would say is shown. Still, unless hosts are listed, those aren't asked that are never
meant for others: loopback, link-local (there, clouds have their metadata services), multicast and reserved addresses;
and, in `asking`, other addresses of this machine.
What counts is the address that is connected to, not the name. A listed name is trusted, whatever its address is.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from kshare.errors import ConfigError

_PATTERN = re.compile(r"[A-Za-z0-9_.*-]{1,253}")
_NUMBERS = re.compile(r"[0-9.]+")
"""An address that lacks something."""


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    names: tuple[str, ...] = ()
    """In lower case; `*` stands for any text."""
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    @classmethod
    def parse(cls, texts: Iterable[str]) -> AllowedHosts:
        """Names such as `*.shop.svc`, addresses, and networks such as `10.0.0.0/8`. Raises ConfigError."""
        names: list[str] = []
        networks: list[IPv4Network | IPv6Network] = []
        for text in texts:
            try:
                networks.append(ipaddress.ip_network(text))
            except ValueError as problem:
                if not _PATTERN.fullmatch(text) or _NUMBERS.fullmatch(text):
                    raise ConfigError(
                        f"{text!r:.300} is neither a host name, such as *.shop.svc, nor a network, such as "
                        f"10.0.0.0/8: {problem}"
                    ) from None
                names.append(text.lower())
        return cls(tuple(names), tuple(networks))

    @property
    def is_listed(self) -> bool:
        """Whether hosts are listed: then the lists alone count."""
        return bool(self.names or self.networks)

    def among(self, host: str, addresses: Sequence[str]) -> list[str]:
        """Those addresses of a host that may be asked."""
        if any(_matches(name, host) for name in self.names):
            return [*addresses]
        return [address for address in addresses if self._allows(_plain(address))]

    def _allows(self, address: IPv4Address | IPv6Address) -> bool:
        if self.is_listed:
            return any(address in network for network in self.networks)
        return not (
            address.is_loopback
            or address.is_link_local
            or address.is_multicast
            or address.is_unspecified
            or address.is_reserved
        )


FOR_OTHERS = AllowedHosts()
"""All hosts, but for those addresses that are never meant for others."""


def _plain(text: str) -> IPv4Address | IPv6Address:
    """IPv4 addresses that are written as IPv6 ones are IPv4 addresses."""
    address = ipaddress.ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def _matches(pattern: str, host: str) -> bool:
    parts = (re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(".*".join(parts), host.lower().removesuffix(".")) is not None
