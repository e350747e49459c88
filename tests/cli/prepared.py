"""kshare processes that start without imports: they are forked from an interpreter that has imported everything.

Importing what a command needs takes most of a second, and hundreds of tests run commands. A forked process has its own
descriptors, environment and session, receives signals, and ends as an interpreter does. `running.KSHARE` starts a new
interpreter, for tests of start-up itself.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Mapping
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_KAFKA_PYTHONS = [f"ignore:{name}_text is deprecated:DeprecationWarning" for name in ("open", "read")]
PYTHON = [sys.executable, "-W", "error", *(word for python in _KAFKA_PYTHONS for word in ("-W", python))]
"""An interpreter that turns warnings into errors, as the tests do."""
_HEADER_SIZE = 4


class Prepared:
    """A process that runs one command: the part of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        arguments: tuple[str, ...],
        descriptors: tuple[int, int, int],
        environment: Mapping[str, str] | None = None,
        *,
        has_terminal: bool = False,
    ) -> None:
        """The caller closes the three descriptors. A terminal becomes the controlling terminal of the process."""
        request = {
            "arguments": arguments,
            "environment": dict(os.environ if environment is None else environment),
            "has_terminal": has_terminal,
        }
        self._report, theirs = socket.socketpair()
        with theirs:
            _send(_server(), request, [*descriptors, theirs.fileno()])
        self.pid = int(self._heard())
        self._code: int | None = None

    def wait(self, timeout: float) -> int:
        """The exit code, or the negative number of the signal that ended it."""
        if self._code is None:
            self._report.settimeout(timeout or None)  # what has already arrived needs no timeout
            self._code = int(self._heard())
            self._report.close()
        return self._code

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        if self._code is None and not select.select([self._report], [], [], 0)[0]:
            return None
        return self.wait(0)

    def send_signal(self, number: int) -> None:
        if self._code is None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return  # it has ended, but its exit code wasn't read yet

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _heard(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            chunk = self._report.recv(1)
            if not chunk:
                raise RuntimeError("the process that forks for commands has ended")
            line += chunk
        return line


@functools.cache
def _server() -> socket.socket:
    """The socket of the forking process, which runs until this process ends."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [*PYTHON, "-m", "tests.cli.prepared", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            cwd=_ROOT,
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _send(door: socket.socket, request: Mapping[str, Any], descriptors: list[int]) -> None:
    data = json.dumps(request).encode()
    socket.send_fds(door, [len(data).to_bytes(_HEADER_SIZE, "big")], descriptors)
    door.sendall(data)


def _receive(door: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    header, descriptors, _, _ = socket.recv_fds(door, _HEADER_SIZE, 4)
    if not header:
        return None
    data, size = b"", int.from_bytes(header, "big")
    while len(data) < size:
        data += door.recv(size - len(data))
    request: dict[str, Any] = json.loads(data)
    return request, descriptors


# --- in the process that forks


def main() -> None:
    _import_commands()
    with socket.socket(fileno=int(sys.argv[1])) as door:
        is_command = _serve(door)
    if is_command:
        from kshare.cli import main as kshare

        kshare()


def _import_commands() -> None:
    import anyio

    import kshare.cli
    from kshare.cli.app import run

    for module in pkgutil.walk_packages(kshare.cli.__path__, "kshare.cli."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    # Some things are imported or created on first use:
    anyio.run(anyio.sleep, 0)
    with redirect_stderr(io.StringIO()):
        run(["decode", "-"])


def _serve(door: socket.socket) -> bool:
    """Fork for each request. Returns True in a process that shall run a command, False after the last request."""
    gc.freeze()  # keeps the imported objects out of garbage collections
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing waits for the processes of _watch
    while (received := _receive(door)) is not None:
        request, descriptors = received
        if not os.fork():
            return _watch(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
    return False


def _watch(request: dict[str, Any], descriptors: list[int]) -> bool:
    """Fork the command's process, and report how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    report = descriptors.pop()
    pid = os.fork()
    if not pid:
        os.close(report)
        _take_over(request, descriptors)
        return True
    for descriptor in descriptors:
        os.close(descriptor)
    os.write(report, b"%d\n" % pid)
    _, status = os.waitpid(pid, 0)
    os.write(report, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _take_over(request: dict[str, Any], descriptors: list[int]) -> None:
    """Set up session, descriptors, environment and standard streams, as in a new interpreter."""
    os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request["has_terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["kshare", *request["arguments"]]
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace", closefd=False)


if __name__ == "__main__":
    main()
