"""Where the console finds worker processes: at URLs, and in a topic in which they announce themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kshare.admin.routing import Router
from kshare.errors import ConfigError
from kshare.fleet.allowed_hosts import FOR_OTHERS, AllowedHosts
from kshare.fleet.announcement_log import AnnouncementLog
from kshare.fleet.fleet import Fleet
from kshare.protocol.topic_names import require_topic_name
from kshare.worker.watch.status_url import parse_status_url


@dataclass(frozen=True, slots=True)
class WorkerSources:
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
