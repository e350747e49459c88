"""The worker processes as pages look them up: by id, by group, and by the record that a run is about. Pure.

What a process says isn't trusted. It was checked where it was read, so its texts and lists are limited; a process that
claims another's id, or a URL as its id, is looked up by its URL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kshare.fleet.fleet import FleetProcess, FleetView
from kshare.fleet.no_status import Why
from kshare.worker.watch.process_identity import ProcessIdentity
from kshare.worker.watch.status import HandlerStatus, ProcessStatus, RunStatus

RecordPlace = tuple[str, str, int, int]
"""Group, topic, partition and offset of a record."""
PartitionPlace = tuple[str, str, int]
_MOST_HOLDERS = 3
"""More runs than that aren't kept for a record or a partition. For a record, two are already unusual."""

_NOT_TOLD = {
    Why.NOT_ALLOWED: "not asked",
    **dict.fromkeys((Why.UNKNOWN_HOST, Why.UNREACHABLE, Why.TIMED_OUT, Why.CLOSED), "no response"),
}


@dataclass(frozen=True, slots=True)
class KnownProcess:
    key: str
    """Names it in URLs of pages: its id, or its own URL if that isn't known or is another's, too."""
    url: str
    identity: ProcessIdentity | None
    """None if it is only known by its URL, and hasn't responded."""
    groups: tuple[str, ...]
    state: str
    """That of its worker; or `silent`, `not asked`, `no response`, or `no status` if it responded something else."""
    reason: str
    """Why its state is unknown, or why it isn't ready; empty if it is."""
    silent_since: float | None
    """When it was announced last, in seconds since 1970, if that was too long ago."""
    heard_at: float | None
    """When it last responded, in seconds since 1970; None if it hasn't since the console was started."""
    handlers: tuple[HandlerStatus, ...] | None
    """None if it hasn't responded."""

    @property
    def host(self) -> str:
        return self.identity.host if self.identity else self.url

    @property
    def run_count(self) -> int | None:
        return None if self.handlers is None else sum(handler.run_count for handler in self.handlers)

    @property
    def longest_s(self) -> float | None:
        """How long its longest run has been going on."""
        return max((run.seconds for handler in self.handlers or () for run in handler.runs), default=None)


@dataclass(frozen=True, slots=True)
class KnownRun:
    process: KnownProcess
    handler: HandlerStatus
    run: RunStatus


class KnownFleet:
    def __init__(self, view: FleetView, at: float, before: KnownFleet | None = None) -> None:
        """`at` is when the processes were asked, in seconds since 1970. `before`: what was known of them until then."""
        self.at = at
        self._by_url: dict[str, KnownProcess] = {}
        self.problems = view.problems
        self._by_key: dict[str, KnownProcess] = {}
        self._by_group: dict[str, list[KnownProcess]] = {}
        self._runs: dict[RecordPlace, list[KnownRun]] = {}
        self._longest: dict[PartitionPlace, list[KnownRun]] = {}
        for process in view.processes:
            earlier = before._by_url.get(str(process.url)) if before else None
            self._add(_known(process, self._by_key, at, earlier))

    @property
    def processes(self) -> Sequence[KnownProcess]:
        return [*self._by_key.values()]

    def process(self, key: str) -> KnownProcess | None:
        return self._by_key.get(key)

    def of_group(self, group: str) -> Sequence[KnownProcess]:
        return self._by_group.get(group, ())

    def runs_about(self, place: RecordPlace) -> Sequence[KnownRun]:
        """Runs that are about this record; of a batch, only the first record is known."""
        return self._runs.get(place, ())

    def longest_runs(self, partition: PartitionPlace) -> Sequence[KnownRun]:
        """The longest runs that are about records of this partition."""
        return self._longest.get(partition, ())

    def _add(self, process: KnownProcess) -> None:
        self._by_key[process.key] = self._by_url[process.url] = process
        for group in process.groups:
            self._by_group.setdefault(group, []).append(process)
        for found in runs_of(process):
            run = found.run
            place = (found.handler.health.group, run.topic, run.partition, run.offset)
            about = self._runs.setdefault(place, [])
            if len(about) < _MOST_HOLDERS:
                about.append(found)
            longest = self._longest.setdefault(place[:3], [])
            longest.append(found)
            longest.sort(key=_longest_first)
            del longest[_MOST_HOLDERS:]


def runs_of(process: KnownProcess) -> list[KnownRun]:
    """The longest first."""
    found = [KnownRun(process, handler, run) for handler in process.handlers or () for run in handler.runs]
    return sorted(found, key=_longest_first)


def _longest_first(one: KnownRun) -> float:
    return -one.run.seconds


def _known(
    process: FleetProcess, taken: Iterable[str], at: float, before: KnownProcess | None
) -> KnownProcess:
    """One that no longer responds, and isn't announced, is still known as what it was `before`."""
    url, announced, told = str(process.url), process.announced, process.told
    identity = announced.announcement.identity if announced else None
    groups = [handler.group for handler in announced.announcement.handlers] if announced else []
    if isinstance(told, ProcessStatus):
        identity = told.identity
        groups = [handler.health.group for handler in told.handlers]
        state, reason, handlers = str(told.state), told.reason, told.handlers
    else:
        state = _NOT_TOLD.get(told.why, "no status") if process.silent_since is None else "silent"
        reason, handlers = told.text, None
        if announced is None and before is not None:
            identity, groups = before.identity, [*before.groups]
    id_ = identity.id if identity else ""
    is_same = before is not None and before.identity is not None and before.identity.id == id_
    heard_at = at if handlers is not None else before.heard_at if before and is_same else None
    return KnownProcess(
        id_ if id_ and "/" not in id_ and id_ not in taken else url,
        url,
        identity,
        tuple(dict.fromkeys(groups)),
        state,
        reason,
        process.silent_since,
        heard_at,
        handlers,
    )
