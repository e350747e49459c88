"""Runs kshare on a pseudoterminal: with typed keys while it runs, or for its whole output."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
from time import monotonic
from types import TracebackType
from typing import Any, Self

from tests.cli.prepared import Prepared
from tests.cli.running import DEADLINE, Done, without_colours


class Terminal:
    """kshare on a terminal of the given size."""

    def __init__(self, *arguments: str, columns: int = 80, lines: int = 24) -> None:
        self._master, slave = pty.openpty()
        self.resize(columns, lines)
        unwanted = ("NO_COLOR", "COLUMNS", "LINES")
        environment = {key: value for key, value in os.environ.items() if key not in unwanted}
        self.process = Prepared(
            arguments,
            (slave, slave, slave),
            {**environment, "TERM": "xterm-256color"},
            has_terminal=True,  # so that Ctrl-C reaches it
        )
        os.close(slave)
        self.sent = bytearray()
        """Everything that was received, unchanged."""
        self._seen = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(DEADLINE)
        os.close(self._master)

    @property
    def text(self) -> str:
        """Everything received so far, without colours."""
        return without_colours(self.sent.decode(errors="replace").replace("\r\n", "\n"))

    def until(self, wanted: str) -> str:
        """Wait for this text; returns what was received since the last call, up to it."""
        deadline = monotonic() + DEADLINE
        while (at := self.text.find(wanted, self._seen)) < 0:
            assert monotonic() < deadline, f"no {wanted!r} in {self.text!r}"
            assert self._read(deadline), f"it ended without {wanted!r}: {self.text!r}"
        before, self._seen = self._seen, at + len(wanted)
        return self.text[before : self._seen]

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def mode(self) -> list[Any]:
        """The terminal attributes."""
        return termios.tcgetattr(self._master)

    def end(self) -> int:
        """The exit code. Fails if the process doesn't end."""
        deadline = monotonic() + DEADLINE
        while self._read(deadline):
            assert monotonic() < deadline, self.text
        return self.process.wait(DEADLINE)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - monotonic()))
        try:
            chunk = os.read(self._master, 65536) if ready else b""
        except OSError:  # on Linux: the other side has closed
            chunk = b""
        self.sent += chunk
        return bool(chunk)


def on_terminal(*arguments: str, columns: int = 80, lines: int = 24) -> Done:
    """Run a command; returns what the terminal received, including standard error."""
    with Terminal(*arguments, columns=columns, lines=lines) as terminal:
        code = terminal.end()
        return Done(code, terminal.sent.decode().replace("\r\n", "\n"))
