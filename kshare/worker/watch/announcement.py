"""What a worker process announces of itself in a topic, as bytes: who it is, and where its status page is. Pure.

The key of the record is the id of the process, the value JSON. `ANNOUNCEMENT_SCHEMA` is the number of its form: adding
a field keeps it, everything else increases it.
"""

from __future__ import annotations

import ipaddress
import json
from dataclasses import asdict, dataclass

from kshare.errors import ConfigError
from kshare.net.addresses import Address
from kshare.options.mistakes import Mistakes
from kshare.protocol.topic_names import require_topic_name
from kshare.worker.watch.process_identity import ProcessIdentity
from kshare.worker.watch.status_url import StatusUrl, parse_status_url

ANNOUNCEMENT_SCHEMA = 1
OWN_URL = "http://{host}:{port}"
"""`{host}` and `{port}` are those of the HTTP endpoint."""
_EXAMPLE: Address = ("localhost", 8080)


@dataclass(frozen=True, slots=True)
class AnnouncedHandler:
    handler: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    identity: ProcessIdentity
    url: StatusUrl
    handlers: tuple[AnnouncedHandler, ...]
    interval_s: float
    """How often it is repeated."""


@dataclass(frozen=True, slots=True)
class AnnounceOptions:
    """Where a worker is announced, and as what: see the options `announce`, `announce_url` and `http` of workers."""

    topic: str
    url: str
    http_host: str


def announcement_value(announcement: Announcement) -> bytes:
    value = {
        "schema": ANNOUNCEMENT_SCHEMA,
        **asdict(announcement.identity),
        "url": str(announcement.url),
        "interval_s": announcement.interval_s,
        "handlers": [asdict(handler) for handler in announcement.handlers],
    }
    return json.dumps(value).encode()


def check_announce(topic: object, url: object) -> None:
    """Raises ConfigError unless these are values of the options `announce` and `announce_url`."""
    mistakes = Mistakes()
    with mistakes:
        announced_url(url, _EXAMPLE, "localhost")
    if topic is not None:
        with mistakes:
            require_topic_name("announce", topic)
    mistakes.raise_all()


def require_endpoint(topic: str | None, http: str | None) -> None:
    """Raises ConfigError if a worker is to be announced, and has no HTTP endpoint."""
    if topic is not None and http is None:
        raise ConfigError(
            'announce needs the HTTP endpoint, whose address is announced: set http, such as http="0.0.0.0:8080"'
        )


def announced_url(template: object, endpoint: Address, host_name: str) -> StatusUrl:
    """Where others find the endpoint. If that listens on all interfaces, its host is the host's name.

    Raises ConfigError.
    """
    if not isinstance(template, str):
        raise ConfigError(f"announce_url must be a URL such as {OWN_URL}, not {template!r:.80}")
    host, port = endpoint
    if _is_any(host):
        host = host_name
    bracketed = f"[{host}]" if ":" in host else host
    try:
        return parse_status_url(template.replace("{host}", bracketed).replace("{port}", str(port)))
    except ConfigError as problem:
        raise ConfigError(f"announce_url: {problem}") from None


def _is_any(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
