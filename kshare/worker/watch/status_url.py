"""The URL of a worker's status page. Pure.

There is one form, `http://host:port/status`, with http or https, and without logins, queries or other paths. So an
untrusted URL can't make a reader request anything else.
"""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import urlsplit

from kshare.errors import ConfigError
from kshare.net.addresses import format_address

STATUS_PATH = "/status"
_LONGEST = 300
_PORTS = {"http": 80, "https": 443}
_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*\.?")


class StatusUrl(NamedTuple):
    scheme: str
    host: str
    """In lower case; without brackets if it is an IPv6 address."""
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{format_address((self.host, self.port))}{STATUS_PATH}"


def parse_status_url(text: str) -> StatusUrl:
    """`http://host:port`, with or without the path. Raises ConfigError."""
    reason = "" if len(text) <= _LONGEST else f"it is longer than {_LONGEST} characters"
    if not reason:
        try:
            return _parsed(text)
        except ValueError as problem:
            reason = str(problem)
    raise ConfigError(f"{text[:_LONGEST]!r} isn't the URL of a worker, such as http://host:8080: {reason}")


def _parsed(text: str) -> StatusUrl:
    """Raises ValueError, with the reason."""
    if not text.isascii() or not text.isprintable() or " " in text or "\\" in text:
        raise ValueError("it has characters that URLs don't have")
    parts = urlsplit(text)
    if parts.scheme not in _PORTS:
        raise ValueError("it must begin with http:// or https://")
    if "@" in parts.netloc:
        raise ValueError("it must not have a username or password")
    if "?" in text or "#" in text or parts.path not in ("", "/", STATUS_PATH):
        raise ValueError(f"the path must be {STATUS_PATH}, without a query or a fragment")
    host = parts.hostname or ""
    port = _PORTS[parts.scheme] if parts.port is None else parts.port
    if port == 0:
        raise ValueError("0 is not a port")
    if ":" in host:
        ipaddress.IPv6Address(host)
        if "%" in host:
            raise ValueError("an address with a scope has a meaning on one host only")
    elif not _NAME.fullmatch(host):
        raise ValueError(f"{host!r} is not a host")
    return StatusUrl(parts.scheme, host, port)
