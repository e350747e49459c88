"""All worker processes that are known, and what each is doing: for pages and commands that show them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kshare.errors import BrokerError, KshareError
from kshare.fleet.allowed_hosts import FOR_OTHERS, AllowedHosts
from kshare.fleet.announcement_log import AnnouncementLog
from kshare.fleet.announcements import Announced
from kshare.fleet.asking import PROCESS_LIMIT_S, Told, ask_all
from kshare.fleet.no_status import NoStatus, Why
from kshare.protocol.error_codes import ErrorCode
from kshare.worker.watch.status import ProcessStatus
from kshare.worker.watch.status_url import StatusUrl, parse_status_url


@dataclass(frozen=True, slots=True)
class FleetProcess:
    url: StatusUrl
    announced: Announced | None
    """None if it is only known by its URL."""
    silent_since: float | None
    """When it was announced last, in seconds since 1970, if that was too long ago."""
    told: Told


@dataclass(frozen=True, slots=True)
class FleetView:
    processes: tuple[FleetProcess, ...]
    problems: tuple[str, ...]
    """Why there may be more processes than these."""


class Fleet:
    """`urls` are asked wherever they are; announced ones only if `allowed`. Each has `limit_s` to respond."""

    def __init__(
        self,
        urls: Iterable[str] = (),
        announcements: AnnouncementLog | None = None,
        allowed: AllowedHosts = FOR_OTHERS,
        *,
        limit_s: float = PROCESS_LIMIT_S,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Raises ConfigError if a URL isn't one."""
        self._urls = list(dict.fromkeys(parse_status_url(url) for url in urls))
        self._announcements = announcements
        self._allowed = allowed
        self._limit_s = limit_s
        self._wall_clock = wall_clock

    async def look(self) -> FleetView:
        """Find all processes, and ask them. Failures are part of what is returned.

        A given URL counts for more than an announcement, which anybody may write who may write to the topic: what
        responds there is shown, whatever else is announced with the same URL or the same id.
        """
        announced, problems = await self._find()
        found: dict[StatusUrl, Announced | None] = dict.fromkeys(self._urls)
        found |= {process.announcement.url: process for process in announced}
        told = await ask_all(
            ((url, None if url in self._urls else self._allowed) for url in found), self._limit_s
        )
        now = self._wall_clock()
        given = {id_ for url in self._urls if (id_ := _id(told[url])) is not None}
        processes = []
        for url, known in found.items():
            if url in self._urls:
                known = known if known and _id(told[url]) in (None, _id(known)) else None
            elif _id(known) in given:
                continue
            processes.append(
                FleetProcess(
                    url, known, known.silent_since(now) if known else None, _checked(told[url], known)
                )
            )
        return FleetView(tuple(processes), tuple(problems))

    async def _find(self) -> tuple[list[Announced], list[str]]:
        log = self._announcements
        if log is None:
            return [], []
        problems = []
        try:
            await log.refresh()
        except KshareError as problem:
            if isinstance(problem, BrokerError) and problem.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                problems.append(f"topic {log.topic} doesn't exist: no worker has announced itself there yet")
            else:
                problems.append(f"announced workers can't be read: {problem}")
        return log.known(), [*problems, *([log.unreadable] if log.unreadable else [])]


def _id(source: Told | Announced | None) -> str | None:
    """The id of the process that this is from, or about."""
    if isinstance(source, Announced):
        return source.announcement.identity.id
    return source.identity.id if isinstance(source, ProcessStatus) else None


def _checked(told: Told, announced: Announced | None) -> Told:
    """Ports are used again: what another process says isn't about the announced one."""
    if (
        isinstance(told, ProcessStatus)
        and announced
        and told.identity.id != announced.announcement.identity.id
    ):
        return NoStatus(
            Why.OTHER_PROCESS,
            f"another worker responds there, with the process id {told.identity.pid} on {told.identity.host}",
        )
    return told
