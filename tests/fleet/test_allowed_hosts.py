"""Which announced hosts are asked."""

from __future__ import annotations

import pytest

from kshare.errors import ConfigError
from kshare.fleet.allowed_hosts import FOR_OTHERS, AllowedHosts


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "192.168.1.1", "93.184.216.34", "fd00::1", "2606:2800:220:1::1"]
)
def test_unless_hosts_are_listed_most_are_asked(address: str) -> None:
    assert FOR_OTHERS.among("shop-1", [address]) == [address]


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "169.254.169.254"),
        *("fe80::1", "fe80::1%eth0", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "240.0.0.1", "255.255.255.255"),
    ],
)
def test_but_not_those_that_are_never_meant_for_others(address: str) -> None:
    assert FOR_OTHERS.among("shop-1", [address, "10.0.0.1"]) == ["10.0.0.1"]


def test_listed_networks() -> None:
    allowed = AllowedHosts.parse(["10.0.0.0/8", "::1", "127.0.0.1"])
    addresses = ["10.1.2.3", "11.1.2.3", "::1", "127.0.0.1", "127.0.0.2", "::ffff:10.0.0.1"]
    assert allowed.among("x", addresses) == ["10.1.2.3", "::1", "127.0.0.1", "::ffff:10.0.0.1"]


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        ("shop-1.shop.svc", True),
        ("SHOP-1.shop.svc.", True),
        ("shop.svc", False),
        ("shop-1.shop.svc.evil.example", False),
        ("shop-1xshop.svc", False),
        ("console", True),
        ("console2", False),
    ],
)
def test_listed_names(host: str, is_allowed: bool) -> None:
    allowed = AllowedHosts.parse(["*.shop.svc", "Console"])
    assert bool(allowed.among(host, ["127.0.0.1"])) is is_allowed


def test_any_host() -> None:
    assert AllowedHosts.parse(["*"]).among("x", ["127.0.0.1"]) == ["127.0.0.1"]


@pytest.mark.parametrize(
    "text", ["", "10.0.0", "10.0.0.1/8", "10.0.0.0/40", "http://host", "host:80", "a b", "[::1]"]
)
def test_what_is_neither_a_name_nor_a_network(text: str) -> None:
    with pytest.raises(ConfigError, match="neither a host name"):
        AllowedHosts.parse([text])
