"""A worker process's connection to its supervisor: reports to it, and ends the process if it dies."""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kshare.cli.worker.app_import import imported_files
from kshare.cli.worker.supervision import STOP_GRACE_S
from kshare.worker import Worker

_LOOK_S = 1.0
_ABANDONED = 1


def end_process(worker: Worker | None, sleep: Callable[[float], object] = time.sleep) -> None:
    """End this process as SIGTERM does, and at once if that takes too long."""
    if worker is None or not worker.is_stopping:
        os.kill(os.getpid(), signal.SIGTERM)
    sleep(STOP_GRACE_S + (worker.drain_timeout if worker is not None else 0.0))
    os._exit(_ABANDONED)


class SupervisorLink:
    """Messages are lines of JSON: `running`, `drain_timeout`, `files` and `is_hopeless`."""

    def __init__(
        self,
        descriptor: int,
        *,
        reloads: bool,
        on_gone: Callable[[Worker | None], None] = end_process,
    ) -> None:
        self.worker: Worker | None = None
        """Once it is imported."""
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)
        self._reloads = reloads
        self._on_gone = on_gone
        self._files: set[str] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._watch, name="kshare worker: supervisor", daemon=True).start()

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

    def _watch(self) -> None:
        """Return only when the supervisor's end is closed, which happens however it dies."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            while True:
                if not selector.select(_LOOK_S):
                    self.report_files()
                elif not self._heard():
                    break
        with self._lock:
            self._socket.close()
        self._on_gone(self.worker)

    def _heard(self) -> bytes:
        try:
            return self._socket.recv(64)
        except OSError:
            return b""
