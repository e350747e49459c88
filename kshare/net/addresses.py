"""Broker addresses: parses "host:port,[::1]:9092"; errors say what to write instead."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import TypeAlias

from kshare.errors import ConfigError

Address: TypeAlias = tuple[str, int]

_LAST_PORT = 65535


def parse_addresses(text: str | Iterable[str]) -> tuple[Address, ...]:
    """One or more addresses, comma-separated or in a list; duplicates are dropped, the order is kept."""
    parts = [text] if isinstance(text, str) else _strings(text)
    pieces = [piece.strip() for part in parts for piece in part.split(",")]
    found = tuple(dict.fromkeys(_parse(piece) for piece in pieces if piece))
    if not found:
        raise ConfigError('no bootstrap address: write at least one host:port, such as "localhost:9092"')
    return found


def joined(given: str | Iterable[str]) -> str:
    """The same addresses in one text."""
    return given if isinstance(given, str) else ",".join(_strings(given))


def format_address(address: Address) -> str:
    """host:port, with IPv6 hosts in brackets."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether it is the machine's own, which no other can reach."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _strings(given: Iterable[str]) -> list[str]:
    try:
        parts = list(given)
    except TypeError:
        parts = [given]  # type: ignore[list-item]
    for part in parts:
        if not isinstance(part, str):
            raise ConfigError(f'{part!r} is not a bootstrap address: write "host:port"')
    return parts


def _parse(piece: str) -> Address:
    if "@" in piece:
        raise ConfigError(
            "a bootstrap address contains @: write host:port, and give username and password as options"
        )
    if "://" in piece:
        raise ConfigError(f"{piece!r}: write host:port without the {piece.partition('://')[0]}://")
    if piece.startswith("["):
        host, bracket, port = piece[1:].partition("]:")
        if not bracket or ":" not in host:
            raise ConfigError(f"{piece!r} is not an address: an IPv6 one is written [::1]:9092")
    else:
        host, _, port = piece.rpartition(":")
        if ":" in host:
            raise ConfigError(f"{piece!r} is ambiguous: put an IPv6 address in brackets, [::1]:9092")
        if not host:
            if ":" in piece:
                raise ConfigError(f"{piece!r} has no host: write localhost:{port or 9092}")
            raise ConfigError(f"{piece!r} has no port: write {piece}:9092")
    if any(letter.isspace() or letter in "[]/@" for letter in host):
        raise ConfigError(f"{piece!r}: {host!r} is not a host name")
    if not (port.isascii() and port.isdigit()) or not 1 <= int(port[:6]) <= _LAST_PORT:
        raise ConfigError(f"{piece!r}: {port!r} is not a port, which is a number from 1 to {_LAST_PORT}")
    return host, int(port)
