"""A child process that can be killed, paused and resumed, and never outlives this process."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

END_DEADLINE_S = 30


class Process:
    """A child in a separate process group. Its output is appended to a log file."""

    def __init__(self, command: Sequence[str | Path], log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _keeper.watch(self._child.pid)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def has_ended(self) -> bool:
        return self._child.poll() is not None

    def pause(self) -> None:
        """Pause it: its sockets stay open, but it doesn't respond. Returns when all its threads have stopped."""
        if not self.has_ended:
            self._signal(signal.SIGSTOP)
            os.waitpid(self.pid, os.WUNTRACED)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def ask_for_threads(self) -> None:
        """Send SIGQUIT, on which a JVM writes a thread dump to its output. Resumes it if it was paused."""
        self._signal(signal.SIGQUIT)
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it as a crash would."""
        self._signal(signal.SIGKILL)
        self._reap()

    def stop(self) -> None:
        """Ask it to end, and kill it if it doesn't in time."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)
        try:
            self._reap()
        except subprocess.TimeoutExpired:
            self.kill()

    def _signal(self, number: signal.Signals) -> None:
        if not self.has_ended:
            os.killpg(self._child.pid, number)

    def _reap(self) -> None:
        self._child.wait(timeout=END_DEADLINE_S)
        _keeper.forget(self._child.pid)


class _Keeper:
    """Controls `keeper.py`, which is started with the first child."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def watch(self, pid: int) -> None:
        self._send_line(f"+{pid}\n")

    def forget(self, pid: int) -> None:
        self._send_line(f"-{pid}\n")

    def _send_line(self, line: str) -> None:
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                # In a separate session, so that a signal to our process group doesn't end the keeper.
                self._process = subprocess.Popen(
                    [sys.executable, "-I", Path(__file__).with_name("keeper.py")],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    text=True,
                    start_new_session=True,
                )
                atexit.register(self._end, self._process)
            assert self._process.stdin is not None
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def _end(self, process: subprocess.Popen[str]) -> None:
        """Wait for the keeper to end when this process exits normally."""
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.wait(timeout=END_DEADLINE_S)


_keeper = _Keeper()
