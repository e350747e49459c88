"""Runs worker processes, as `supervision` decides: starts them, tells them to stop, and waits for their end.

Each process has one end of a socket pair, over which it is told to stop. Signals would say less: Ctrl-C and systemd may
send them to all processes, so that a process couldn't tell whether one is the supervisor's. A process notices that the
supervisor is gone when the other end is closed.

Each process has a process group of its own, so that it can put up with Ctrl-C while Python starts.
"""

from __future__ import annotations

import json
import logging
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from kshare.cli.worker.supervision import Kill, Say, Start, Stop, Supervision, WorkerAction
from kshare.worker.functions.interrupts import STOP_SIGNALS


def modified_ns(path: str) -> int | None:
    """None if the file doesn't exist."""
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return None


class SourceFiles:
    """Notices changes of source files, by their modification times."""

    def __init__(self, modified: Callable[[str], int | None] = modified_ns) -> None:
        self._modified = modified
        self._seen: dict[str, int | None] = {}

    def watch(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._seen.setdefault(path, self._modified(path))

    def changed(self) -> list[str]:
        """The files that have changed since the last call. One that vanishes hasn't: editors replace files."""
        found = []
        for path, before in self._seen.items():
            now = self._modified(path)
            if now is not None and now != before:
                self._seen[path] = now
                found.append(path)
        return found


log = logging.getLogger("kshare.worker")

_LOOK_S = 0.5
"""How often source files are looked at."""
_LONGEST_WAIT_S = 60.0
_CHUNK = 65_536

Command = Callable[[int, int], list[str]]
"""The command line of a process, from its number and the descriptor of its end of the socket pair."""


class _Child:
    def __init__(self, process: subprocess.Popen[bytes], link: socket.socket) -> None:
        self.process = process
        self.link = link
        self.unread = b""
        self.is_hopeless = False


class Processes:
    """`run` returns when all processes have ended."""

    def __init__(self, supervision: Supervision, command: Command) -> None:
        self._supervision = supervision
        self._command = command
        self._children: dict[int, _Child] = {}
        self._selector = selectors.DefaultSelector()
        self._signals: list[int] = []
        self._sources = SourceFiles()

    def run(self) -> None:
        decide = self._supervision
        try:
            with self._receiving_signals():
                self._do(decide.begin(time.monotonic()))
                while not decide.is_over:
                    self._wait()
                    while self._signals:
                        self._do(decide.on_signal(self._signals.pop(0), time.monotonic()))
                    self._look_at_children()
                    if decide.reloads:
                        self._look_at_sources()
                    self._do(decide.on_time(time.monotonic()))
        finally:
            for child in self._children.values():
                child.process.kill()
                child.process.wait()
                child.link.close()
            self._selector.close()

    # --- in

    def _wait(self) -> None:
        due = self._supervision.next_due
        timeout = _LONGEST_WAIT_S if due is None else max(0.0, due - time.monotonic())
        if self._supervision.reloads:
            timeout = min(timeout, _LOOK_S)
        for key, _ in self._selector.select(min(timeout, _LONGEST_WAIT_S)):
            if key.data is None:
                with suppress(BlockingIOError):
                    while key.fileobj.recv(_CHUNK):  # type: ignore[union-attr]
                        pass

    def _look_at_children(self) -> None:
        for slot, child in list(self._children.items()):
            code = child.process.poll()  # before reading, so that nothing which it has written is missed
            self._read(slot, child)
            if code is not None:
                del self._children[slot]
                with suppress(KeyError):
                    self._selector.unregister(child.link)
                child.link.close()
                now = time.monotonic()
                self._do(self._supervision.on_exit(slot, code, now, is_hopeless=child.is_hopeless))

    def _read(self, slot: int, child: _Child) -> None:
        while True:
            try:
                data = child.link.recv(_CHUNK)
            except OSError:  # nothing to read now
                return
            if not data:  # it is about to end, or has closed everything: SIGCHLD tells
                with suppress(KeyError):
                    self._selector.unregister(child.link)
                return
            *lines, child.unread = (child.unread + data).split(b"\n")
            for line in lines:
                self._on_message(slot, child, json.loads(line))

    def _on_message(self, slot: int, child: _Child, message: dict[str, Any]) -> None:
        if "drain_timeout" in message:
            self._supervision.on_drain_timeout(slot, message["drain_timeout"])
        if "running" in message:
            self._do(self._supervision.on_running(slot, time.monotonic()))
        child.is_hopeless |= "is_hopeless" in message
        self._sources.watch(message.get("files", ()))

    def _look_at_sources(self) -> None:
        changed = self._sources.changed()
        if changed:
            here = Path.cwd()
            names = [
                str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
                for path in map(Path, changed)
            ]
            log.info("%s changed: restarting", ", ".join(names))
            self._do(self._supervision.on_change(time.monotonic()))

    @contextmanager
    def _receiving_signals(self) -> Iterator[None]:
        """Note signals, and wake `_wait` for them and for the end of processes."""

        def note(number: int, frame: FrameType | None) -> None:
            self._signals.append(number)

        def wake(number: int, frame: FrameType | None) -> None:
            """The byte that Python writes for each signal wakes."""

        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self._selector.register(ours, selectors.EVENT_READ, None)
        earlier_descriptor = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        earlier: dict[int, Any] = {number: signal.signal(number, note) for number in STOP_SIGNALS}
        earlier[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, wake)
        try:
            yield
        finally:
            for number, handler in earlier.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(earlier_descriptor)
            ours.close()
            theirs.close()

    # --- out

    def _do(self, actions: list[WorkerAction]) -> None:
        for action in actions:
            match action:
                case Start(slot):
                    self._start(slot)
                case Stop(slot, number, at_once):
                    self._tell(slot, stop=number, at_once=at_once)
                case Kill(slot):
                    if slot in self._children:
                        self._children[slot].process.kill()
                case Say(text, is_problem):
                    log.log(logging.ERROR if is_problem else logging.INFO, "%s", text)

    def _start(self, slot: int) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            process = subprocess.Popen(self._command(slot, number), pass_fds=[number], process_group=0)
        ours.setblocking(False)
        self._selector.register(ours, selectors.EVENT_READ, slot)
        self._children[slot] = _Child(process, ours)

    def _tell(self, slot: int, **message: Any) -> None:
        child = self._children.get(slot)
        if child is not None:
            with suppress(OSError):  # it has ended meanwhile
                child.link.sendall(f"{json.dumps(message)}\n".encode())
