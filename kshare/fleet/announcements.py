"""Which worker processes are announced: by the latest record of each in the topic, unless that says that it has ended.

Pure: records and times are passed in. A process that wasn't announced for three of its intervals is silent: it was
killed, or can't write. It is forgotten after `REMEMBERED_S`, or when a later one is announced at the same URL.
"""

from __future__ import annotations

from dataclasses import dataclass

from kshare.errors import ConfigError
from kshare.fleet.json_table import JsonTable, NotExpected
from kshare.fleet.status_parsing import parse_identity
from kshare.worker.watch.announcement import ANNOUNCEMENT_SCHEMA, AnnouncedHandler, Announcement
from kshare.worker.watch.status_url import StatusUrl, parse_status_url

REMEMBERED_S = 3_600.0
MOST_PROCESSES = 1_000
MOST_BYTES = 8 << 20
"""Of more than that, the most recently announced are kept."""
_SILENT_AFTER = 3
_MOST_HANDLERS = 1_000
_LONGEST_VALUE = 256 * 1024


@dataclass(frozen=True, slots=True)
class Announced:
    announcement: Announcement
    at: float
    """When it was last announced, in seconds since 1970."""

    size: int = 0
    """Of its record, in bytes."""

    def silent_since(self, now: float) -> float | None:
        """None if it isn't silent."""
        return self.at if now - self.at > _SILENT_AFTER * self.announcement.interval_s else None


class Announcements:
    def __init__(self) -> None:
        self.unreadable = 0
        """How many records were no announcements that this version of kshare reads."""
        self.reason = ""
        """Why the last of them wasn't."""
        self._bytes = 0
        self._found: dict[str, Announced] = {}
        """By process id, in the order of the latest records."""

    def take(self, key: bytes | None, value: bytes | None, at: float, now: float) -> None:
        """The next record of the topic. If it claims to be from the future, it is from now."""
        id_ = (key or b"").decode("utf-8", "replace")
        if value is None:
            self._drop(id_)
            return
        try:
            announcement = parse_announcement(id_, value)
        except NotExpected as problem:
            self.unreadable += 1
            self.reason = str(problem)
            return
        self._drop(id_)
        self._found[id_] = Announced(announcement, min(at, now), len(value))
        self._bytes += len(value)
        while len(self._found) > MOST_PROCESSES or self._bytes > MOST_BYTES:
            self._drop(next(iter(self._found)))

    def _drop(self, id_: str) -> None:
        dropped = self._found.pop(id_, None)
        self._bytes -= dropped.size if dropped else 0

    def known(self, now: float) -> list[Announced]:
        """Those that aren't forgotten, the earliest started first."""
        recent = [process for process in self._found.values() if now - process.at <= REMEMBERED_S]
        last: dict[StatusUrl, Announced] = {
            process.announcement.url: process for process in sorted(recent, key=_started)
        }
        return sorted(last.values(), key=_started)


def parse_announcement(id_: str, value: bytes) -> Announcement:
    """Raises NotExpected."""
    if len(value) > _LONGEST_VALUE:
        raise NotExpected(f"it has more than {_LONGEST_VALUE:,} bytes")
    table = JsonTable.parse(value)
    table.require_schema(ANNOUNCEMENT_SCHEMA)
    identity = parse_identity(table)
    if identity.id != id_:
        raise NotExpected("its key isn't the id in its value")
    try:
        url = parse_status_url(table.text("url"))
    except ConfigError as problem:
        raise NotExpected(str(problem)) from None
    return Announcement(
        identity=identity,
        url=url,
        handlers=tuple(
            AnnouncedHandler(handler.text("handler"), handler.text("group"))
            for handler in table.tables("handlers", _MOST_HANDLERS)
        ),
        interval_s=table.number("interval_s", REMEMBERED_S),
    )


def _started(one: Announced) -> tuple[float, str]:
    return one.announcement.identity.started_at, one.announcement.identity.id
