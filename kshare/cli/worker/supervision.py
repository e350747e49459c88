"""Decides when worker processes are started, signalled, killed and given up. Pure: times are passed in.

    a process                    | what follows
    -----------------------------+----------------------------------------------------------------------
    the first one is running     | the others are started
    the first one ends before    | give up: the others would probably end like it
    ends with exit code 0        | it has stopped on its own: it isn't started again
    crashes                      | started again after a pause: 1 s, then twice as long each time, up to 30 s,
                                 | until it has lived a minute
    can't run (a ConfigError)    | not started again; the others go on
    outlives its time to stop    | killed

When reloading, a process that has ended is started again after a change, and only then.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from enum import Enum, auto

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
_LONG_LIFE_S = 60.0
"""After this time, a crash counts as the first one."""
STOP_GRACE_S = 20.0
"""How long a process may take beyond its drain timeout: to cancel handlers, and to leave the group."""
_USUAL_DRAIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Start:
    slot: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Tell a process to stop. If it isn't running yet, it ends at once."""

    slot: int
    signal: int
    """The one that we have received. The process raises it, so that signal handlers of the user run."""
    at_once: bool = False
    """Let it cancel its handlers."""


@dataclass(frozen=True, slots=True)
class Kill:
    slot: int


@dataclass(frozen=True, slots=True)
class Say:
    text: str
    is_problem: bool = False


WorkerAction = Start | Stop | Kill | Say


class _Phase(Enum):
    NEW = auto()
    STARTING = auto()
    RUNNING = auto()
    PAUSED = auto()
    """It has crashed, and is started again at `due`."""
    WAITING = auto()
    """It has ended, and is started again after a change."""
    ENDED = auto()


_ALIVE = (_Phase.STARTING, _Phase.RUNNING)


@dataclass(slots=True)
class _Process:
    phase: _Phase = _Phase.NEW
    since: float = 0.0
    due: float | None = None
    """When to start it again, or to kill it."""
    pause: float = _FIRST_PAUSE_S
    is_reloading: bool = False
    drain_timeout: float = _USUAL_DRAIN_S

    @property
    def is_alive(self) -> bool:
        return self.phase in _ALIVE


@dataclass(slots=True)
class Supervision:
    """The processes are numbered from 0. Each method returns what to do."""

    count: int
    reloads: bool = False
    has_failed: bool = False
    """Whether a process couldn't run, was killed, or crashed while it was stopping."""
    is_stopping: bool = False
    _has_run: bool = False
    _processes: list[_Process] = field(init=False)

    def __post_init__(self) -> None:
        self._processes = [_Process() for _ in range(self.count)]

    @property
    def is_over(self) -> bool:
        return all(process.phase is _Phase.ENDED for process in self._processes)

    @property
    def next_due(self) -> float | None:
        return min((process.due for process in self._processes if process.due is not None), default=None)

    def begin(self, now: float) -> list[WorkerAction]:
        return self._start(0, now)

    def on_running(self, slot: int, now: float) -> list[WorkerAction]:
        """Its handlers are running."""
        if self._processes[slot].phase is _Phase.STARTING:
            self._processes[slot].phase = _Phase.RUNNING
            self._has_run = True
        if self.is_stopping:
            return []
        new = [number for number, process in enumerate(self._processes) if process.phase is _Phase.NEW]
        return [action for number in new for action in self._start(number, now)]

    def on_drain_timeout(self, slot: int, seconds: float) -> None:
        """How long its handlers may take to finish."""
        self._processes[slot].drain_timeout = seconds

    def on_exit(self, slot: int, code: int, now: float, *, is_hopeless: bool = False) -> list[WorkerAction]:
        """A process has ended. `code` is negative for a signal. `is_hopeless`: it would end the same way again."""
        one = self._processes[slot]
        was_running, one.due = one.phase is _Phase.RUNNING, None
        if self.is_stopping:
            one.phase = _Phase.ENDED
            if code == 0 or not was_running:  # it held nothing
                return []
            self.has_failed = True
            return [Say(f"{self._name(slot)} {_ending(code)} while it was stopping", is_problem=True)]
        if one.is_reloading:
            one.is_reloading = False
            return self._start(slot, now)
        if code == 0:
            self._end(slot)
            return [Say(f"{self._name(slot)} has stopped on its own")]
        if self.reloads:
            one.phase = _Phase.WAITING
            return [Say(f"{self._name(slot)} {_ending(code)}: waiting for a change", is_problem=True)]
        if is_hopeless or not self._has_run:
            self._end(slot)
            self.has_failed = True
            why = "not restarted, because it would fail the same way"
            if not is_hopeless:
                why = "not restarted, because it has never run"
            return [Say(f"{self._name(slot)} {_ending(code)}: {why}", is_problem=True)]
        if now - one.since >= _LONG_LIFE_S:
            one.pause = _FIRST_PAUSE_S
        one.phase, one.due = _Phase.PAUSED, now + one.pause
        said = f"{self._name(slot)} {_ending(code)}: restarting in {one.pause:g} s"
        one.pause = min(_LONGEST_PAUSE_S, 2 * one.pause)
        return [Say(said, is_problem=True)]

    def on_signal(self, number: int, now: float) -> list[WorkerAction]:
        """Stop all processes. A second signal lets them cancel their handlers."""
        is_repeated, self.is_stopping = self.is_stopping, True
        actions: list[WorkerAction] = []
        for slot, process in enumerate(self._processes):
            if not process.is_alive:
                process.phase, process.due = _Phase.ENDED, None
                continue
            patience = STOP_GRACE_S if is_repeated else process.drain_timeout + STOP_GRACE_S
            process.due = now + patience if process.due is None else min(process.due, now + patience)
            if is_repeated and process.phase is _Phase.STARTING:
                actions.append(Kill(slot))
            else:
                actions.append(Stop(slot, number, at_once=is_repeated))
        return actions

    def on_change(self, now: float) -> list[WorkerAction]:
        """Source files have changed."""
        if self.is_stopping:
            return []
        actions: list[WorkerAction] = []
        for slot, process in enumerate(self._processes):
            if process.phase is _Phase.WAITING:
                actions += self._start(slot, now)
            elif process.is_alive and not process.is_reloading:
                process.is_reloading, process.due = True, now + process.drain_timeout + STOP_GRACE_S
                is_running = process.phase is _Phase.RUNNING
                actions.append(Stop(slot, signal.SIGTERM) if is_running else Kill(slot))
        return actions

    def on_time(self, now: float) -> list[WorkerAction]:
        """Start and kill what is due."""
        actions: list[WorkerAction] = []
        for slot, process in enumerate(self._processes):
            if process.due is None or now < process.due:
                continue
            process.due = None
            if process.phase is _Phase.PAUSED:
                actions += self._start(slot, now)
            else:
                self.has_failed |= self.is_stopping
                actions += [
                    Say(f"{self._name(slot)} doesn't stop: killing it", is_problem=True),
                    Kill(slot),
                ]
        return actions

    def _start(self, slot: int, now: float) -> list[WorkerAction]:
        one = self._processes[slot]
        one.phase, one.since, one.due = _Phase.STARTING, now, None
        return [Start(slot)]

    def _end(self, slot: int) -> None:
        """For good. If the first process ends before it has run, the others aren't started."""
        self._processes[slot].phase = _Phase.ENDED
        for process in self._processes:
            if process.phase is _Phase.NEW:
                process.phase = _Phase.ENDED

    def _name(self, slot: int) -> str:
        return "the worker" if self.count == 1 else f"worker process {slot + 1}"


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
