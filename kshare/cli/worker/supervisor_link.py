"""A worker process's connection to its supervisor: reports to it, and stops when told to, or when it dies.

What the supervisor says counts, and not how many signals arrive: systemd sends SIGTERM to all processes, so a process
would take what the supervisor passes on for a second signal, and cancel its handlers. A signal from elsewhere stops
the worker, too, but only once.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from types import FrameType
from typing import Any

from kshare.cli.worker.app_import import imported_files
from kshare.cli.worker.supervision import STOP_GRACE_S
from kshare.worker import Worker
from kshare.worker.functions.interrupts import STOP_SIGNALS

_LOOK_S = 1.0
_ABANDONED = 1


class _Phase(Enum):
    LOADING = auto()
    SERVING = auto()
    OVER = auto()


def leave_signals_to_supervisor() -> None:
    """Let signals do nothing until the worker runs: before, the supervisor ends this process."""

    def ignore(number: int, frame: FrameType | None) -> None: ...

    for number in STOP_SIGNALS:
        signal.signal(number, ignore)


def ignore_signals() -> None:
    """Let none interrupt the end of this process. When Python ends, it lets those that have handlers end it."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def end_process(link: SupervisorLink, sleep: Callable[[float], object] = time.sleep) -> None:
    """End this process as SIGTERM does, and at once if that takes too long."""
    link.want_stop(signal.SIGTERM)
    seconds = STOP_GRACE_S + (link.worker.drain_timeout if link.worker is not None else 0.0)
    while seconds > 0:
        sleep(_LOOK_S)
        seconds -= _LOOK_S
        link.insist()
    os._exit(_ABANDONED)


class SupervisorLink:
    """Messages are lines of JSON. Ours are `running`, `drain_timeout`, `files` and `is_hopeless`; the supervisor's are
    `stop`, which is a signal, with `at_once`.

    While the worker runs, it has to ask `stops_per_signal` about each signal.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        reloads: bool,
        on_gone: Callable[[SupervisorLink], None] = end_process,
    ) -> None:
        self.worker: Worker | None = None
        """Once it is imported."""
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)
        self._reloads = reloads
        self._on_gone = on_gone
        self._files: set[str] = set()
        self._unread = b""
        self._lock = threading.Lock()
        self._phase = _Phase.LOADING
        self._phase_lock = threading.Lock()
        self._signal = signal.SIGTERM
        self._wanted = 0
        """How often the worker is to be stopped: once lets handlers finish, twice cancels them."""
        self._done = 0
        """How often it was stopped because of signals."""
        self._is_gone = False
        threading.Thread(target=self._watch, name="kshare worker: supervisor", daemon=True).start()

    # --- reports

    def report(self, **message: Any) -> None:
        with self._lock, suppress(OSError):  # a supervisor that is gone is noticed in `_watch`
            self._socket.sendall(f"{json.dumps(message)}\n".encode())

    def report_files(self, more: set[str] | None = None) -> None:
        """Report the source files that have been imported since the last call, and `more`, if they are watched."""
        if not self._reloads:
            return
        new = (imported_files() | (more or set())) - self._files
        if new:
            self._files |= new
            self.report(files=sorted(new))

    # --- stopping

    @contextmanager
    def serving(self) -> Iterator[None]:
        """The worker runs: let signals stop it. Before, nothing has to be finished, so the process just ends."""
        self._enter(_Phase.SERVING)
        try:
            yield
        finally:
            self._enter(_Phase.OVER)

    def want_stop(self, number: int, *, at_once: bool = False) -> None:
        """Called in the thread of this link."""
        self._signal = signal.Signals(number)
        self._wanted = max(self._wanted, 2 if at_once else 1)
        self.insist()

    def insist(self) -> None:
        """Do what is wanted, unless that is done. A signal may be lost while the worker is about to run."""
        with self._phase_lock:
            if self._wanted and self._phase is _Phase.LOADING:
                os._exit(0)
            if self._phase is _Phase.SERVING and self._stops < self._wanted:
                main = threading.main_thread().ident
                assert main is not None, "started"
                signal.pthread_kill(main, self._signal)

    def stops_per_signal(self) -> int:
        """How often a signal that has arrived is to stop the worker. Called by signal handlers, so it takes no lock."""
        stops = self._stops
        wanted = max(1, self._wanted)
        if self._is_gone and stops >= wanted:
            wanted = stops + 1  # nobody else can tell us any more
        self._done = max(stops, wanted)
        return self._done - stops

    @property
    def _stops(self) -> int:
        """How often the worker was stopped: it may also have stopped itself."""
        return max(self._done, int(self.worker is not None and self.worker.is_stopping))

    def _enter(self, phase: _Phase) -> None:
        with self._phase_lock:
            self._phase = phase

    # --- the thread

    def _watch(self) -> None:
        try:
            self._listen()
        finally:
            with self._lock:
                self._socket.close()
        self._is_gone = True
        self._on_gone(self)

    def _listen(self) -> None:
        """Return only when the supervisor's end is closed, which happens however it dies."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            while True:
                if not selector.select(_LOOK_S):
                    self.report_files()
                    self.insist()
                elif not self._read():
                    return

    def _read(self) -> bool:
        """Returns False at the end."""
        try:
            data = self._socket.recv(4_096)
        except OSError:
            return False
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            self.want_stop(message["stop"], at_once=message["at_once"])
        return bool(data)
