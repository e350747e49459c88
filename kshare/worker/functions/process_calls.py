"""Calls plain functions in other processes, which are kept for the next calls.

All that blocks is done in threads: starting a process, and waiting for what a function returns. A call that is
cancelled ends its process, and thereby its thread.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from anyio import BrokenWorkerProcess, CapacityLimiter, to_thread

from kshare.worker.functions.interrupts import STOP_SIGNALS
from kshare.worker.functions.process_failures import failure_from_bytes
from kshare.worker.functions.process_frames import FrameError, read_frame, write_frame

_IDLE_S = 300.0
"""A process that has had no call for this many seconds is ended."""
_CHILD = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from kshare.worker.functions.process_child import main
main(json.loads(sys.argv[2]))
"""


class ProcessCalls:
    """For one handler: `most` calls at once. `close` it at the end."""

    def __init__(self, most: int) -> None:
        self._limiter = CapacityLimiter(most)
        self._threads = CapacityLimiter(math.inf)
        self._idle: deque[tuple[_Process, float]] = deque()
        """The one that was used last is at the end."""

    async def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Raises what the function raises, and BrokenWorkerProcess if its process dies."""
        content = pickle.dumps((function, arguments), pickle.HIGHEST_PROTOCOL)
        async with self._limiter:
            await self._end_idle(anyio.current_time() - _IDLE_S)
            process = self._idle.pop()[0] if self._idle else _Process()
            try:
                ended = await to_thread.run_sync(
                    process.call, content, abandon_on_cancel=True, limiter=self._threads
                )
            except BaseException:
                process.kill()
                raise
            self._idle.append((process, anyio.current_time()))
        if ended:  # in a thread: exceptions may be large, or made again by code of the user's
            raise await to_thread.run_sync(
                failure_from_bytes, ended, abandon_on_cancel=True, limiter=self._threads
            )

    async def close(self) -> None:
        """End the processes. None of them is calling anything."""
        with anyio.CancelScope(shield=True):
            await self._end_idle(math.inf)

    async def _end_idle(self, before: float) -> None:
        ending = []
        while self._idle and self._idle[0][1] < before:
            ending.append(self._idle.popleft()[0])
        if ending:
            await to_thread.run_sync(_end, ending, limiter=self._threads)


def _end(processes: list[_Process]) -> None:
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()


class _Process:
    """One process. It is started by its first call; any thread may `kill` it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started: subprocess.Popen[bytes] | None = None
        self._is_killed = False
        self._calls = 0

    def call(self, content: bytes) -> bytes:
        """Returns nothing if the function has returned, and otherwise its exception. Raises BrokenWorkerProcess."""
        try:
            if self._started is None:
                self._start()
            return self._exchange(content)
        except BaseException:
            self.kill()
            self.wait()
            raise

    def kill(self) -> None:
        with self._lock:
            self._is_killed = True
            if self._started is not None:
                self._started.kill()

    def wait(self) -> None:
        """Until it has ended, when it was killed."""
        process = self._started
        if process is not None:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                with suppress(OSError):
                    pipe.close()

    def _start(self) -> None:
        output = _standard_output()
        given = () if output is None else (output,)
        command = [sys.executable, "-u", "-c", _CHILD, json.dumps(_importable()), json.dumps(output)]
        try:
            with self._lock, _signals_blocked():
                if self._is_killed:
                    raise BrokenWorkerProcess("it was ended before it had begun")
                self._started = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=given
                )
        finally:
            for descriptor in given:
                os.close(descriptor)
        failure = self._exchange(pickle.dumps((None, (_preparation(),)), pickle.HIGHEST_PROTOCOL))
        if failure:
            raise BrokenWorkerProcess("the main program can't be imported") from failure_from_bytes(failure)

    def _exchange(self, content: bytes) -> bytes:
        process = self._started
        assert process is not None, "started before"
        assert process.stdin is not None, "a pipe"
        assert process.stdout is not None, "a pipe"
        self._calls += 1
        try:
            write_frame(process.stdin, self._calls, content)  # type: ignore[arg-type]
            response = read_frame(process.stdout)  # type: ignore[arg-type]
        except (OSError, FrameError) as problem:
            raise BrokenWorkerProcess(
                f"a process that calls functions can no longer be used: {problem}"
            ) from problem
        if response is None:
            raise BrokenWorkerProcess("a process has died while it called a function")
        number, ended = response
        if number != self._calls:
            raise BrokenWorkerProcess(f"a process has responded to call {number} instead of {self._calls}")
        return ended


def _standard_output() -> int | None:
    """A copy of the descriptor, for a process. None if there is none, or it can't be passed on."""
    if sys.platform == "win32":
        return None
    try:
        return os.dup(1)
    except OSError:
        return None


def _importable() -> list[str]:
    return [place for place in sys.path if isinstance(place, str)]


def _preparation() -> dict[str, Any]:
    """What another process needs to import the main program, as for Python's multiprocessing."""
    found: dict[str, Any] = {"sys_path": _importable(), "sys_argv": sys.argv}
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    path = getattr(main, "__file__", None)
    if spec is not None:
        found["init_main_from_name"] = spec.name
    elif path and Path(path).is_file():
        found["init_main_from_path"] = str(Path(path).absolute())
    return found


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """A process that is started has them blocked, until it ignores them."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
