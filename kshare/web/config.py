"""The settings of the console."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kshare.admin.config import admin_settings
from kshare.admin.routing import Router
from kshare.errors import ConfigError
from kshare.fleet.allowed_hosts import FOR_OTHERS, AllowedHosts
from kshare.fleet.announcement_log import AnnouncementLog
from kshare.fleet.fleet import Fleet
from kshare.net.addresses import is_loopback
from kshare.net.settings import NetSettings
from kshare.protocol.topic_names import require_topic_name
from kshare.web.registry_url import check_registry_url
from kshare.worker.watch.status_url import parse_status_url

_THIS_MACHINE = ("127.0.0.1", "::1")
_LOOPBACK = frozenset({"localhost", *_THIS_MACHINE})
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class WorkerSources:
    """Where the console finds worker processes: at URLs, and in a topic in which they announce themselves."""

    urls: tuple[str, ...] = ()
    topic: str | None = None
    allowed: AllowedHosts = FOR_OTHERS
    """Which announced hosts are asked."""

    @classmethod
    def parse(cls, urls: Iterable[str], topic: str | None, hosts: Iterable[str]) -> WorkerSources:
        """Raises ConfigError."""
        allowed = AllowedHosts.parse(hosts)
        if topic is not None:
            require_topic_name("--worker-topic", topic)
        elif allowed != FOR_OTHERS:
            raise ConfigError(
                "allowed hosts of workers (--worker-host) are for those that are announced: name the topic, too "
                "(--worker-topic)"
            )
        return cls(tuple(str(parse_status_url(url)) for url in urls), topic, allowed)

    @property
    def has_any(self) -> bool:
        return bool(self.urls or self.topic)

    def fleet(self, router: Router) -> Fleet:
        announcements = AnnouncementLog(router, self.topic) if self.topic else None
        return Fleet(self.urls, announcements, self.allowed)


@dataclass(frozen=True, slots=True)
class WebConfig:
    cluster: dict[str, Any] = field(repr=False)
    """Connection options of the cluster, under Kafka's names. They may contain secrets."""
    host: str = "127.0.0.1"
    port: int = 8932
    allow_changes: bool = False
    users: Path | None = None
    """A file with users: see `kshare.web.users`. With a proxy's header, it has only their rights."""
    user_header: str | None = None
    """A header in which a trusted proxy passes the user's name."""
    trusted_proxies: tuple[str, ...] | None = None
    """Addresses from which that header is believed; by default, those of this machine."""
    allowed_hosts: tuple[str, ...] = ()
    """More names under which the console may be requested, such as a proxy's."""
    audit_log: Path | None = None
    interval_s: float = 2.0
    """The time between readings, at least."""
    worker_urls: tuple[str, ...] = ()
    """Status pages of workers."""
    worker_topic: str | None = None
    """The topic in which workers announce their status pages."""
    worker_hosts: tuple[str, ...] = ()
    """Hosts and networks that are asked if they are announced: see `kshare.fleet.allowed_hosts`."""
    schema_registry: str | None = field(default=None, repr=False)
    """The URL of a schema registry, or several, separated by commas. It may contain a name and a password."""

    def __post_init__(self) -> None:
        if self.user_header is not None and not _HEADER_NAME.fullmatch(self.user_header):
            raise ConfigError(
                f"{self.user_header!r} can't be the name of a header: give the one in which the proxy passes users, "
                "such as X-User (--user-header)"
            )
        if self.user_header is not None and self.allow_changes and self.users is None:
            raise ConfigError(
                "a proxy's header (--user-header) has no rights: to allow changes (--allow-changes), give a file with "
                "a line `name:change` for each user who may make them, or `*:change` for all whom the proxy lets in "
                "(--users)"
            )
        if self.trusted_proxies is not None and self.user_header is None:
            raise ConfigError(
                "a trusted proxy (--trusted-proxy) passes the user in a header: name that header (--user-header)"
            )
        for address in self.trusted_proxies or ():
            if not _is_address(address):
                raise ConfigError(
                    f"{address!r} isn't the address of a proxy: write an IP address, such as 10.0.0.5 (--trusted-proxy)"
                )
        if not self.is_loopback and self.users is None and self.user_header is None:
            raise ConfigError(
                f"on {self.host}, everyone in the network could open the console: give a file of users (--users) or "
                "the header of a proxy that checks them (--user-header), or listen on 127.0.0.1"
            )
        if self.schema_registry is not None:
            check_registry_url(self.schema_registry)
        _ = self.workers  # which checks the options

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    @property
    def proxies(self) -> tuple[str, ...]:
        """Addresses from which the header with the user is believed."""
        return _THIS_MACHINE if self.trusted_proxies is None else self.trusted_proxies

    @property
    def hosts(self) -> frozenset[str]:
        """Names in a Host header that are accepted; others may be an attack by DNS rebinding."""
        return frozenset(name.lower() for name in (*_LOOPBACK, self.host, *self.allowed_hosts))

    @property
    def workers(self) -> WorkerSources:
        return WorkerSources.parse(self.worker_urls, self.worker_topic, self.worker_hosts)

    @property
    def net(self) -> NetSettings:
        return admin_settings(None, self.cluster)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
