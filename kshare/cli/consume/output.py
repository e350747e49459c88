"""Writes records to standard output, and checks that its reader takes them.

In a file or on a terminal, a record counts as printed once it is written. But bytes in a pipe may never be read, as in
`| head -1`. So the first thousand lines are written one by one, each after the reader has taken the one before. A
reader that takes more than that is likely to continue, and gets as many lines as fit into the pipe.

Writing never blocks the event loop: while the reader is slow (a pager, Ctrl-S), heartbeats and renewals continue.
"""

from __future__ import annotations

import fcntl
import os
import select
import stat
import sys
from contextlib import suppress

import anyio

from kshare.cli.terminal.failure import ClosedPipe, closed_pipe
from kshare.log_text import replaced_lines

_ONE_BY_ONE = 1000
_PIPE_PIECE = 4096
"""A writable pipe takes this many bytes without blocking. A pipe of this size is writable only when it is empty."""
_TERMINAL_PIECE = 128
_LOOK_S = 0.1
_CLOSED = select.POLLERR | select.POLLHUP


class RecordOutput:
    def __init__(self) -> None:
        self._descriptor = sys.stdout.fileno()
        mode = os.fstat(self._descriptor).st_mode
        self._is_terminal = os.isatty(self._descriptor)
        self._is_file = stat.S_ISREG(mode)
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLOUT)
        self._lines = 0
        self._usual_size = self._shrink() if stat.S_ISFIFO(mode) else None

    @property
    def is_one_by_one(self) -> bool:
        """Whether each line must be written before the next one is made."""
        return self._usual_size is not None and self._lines < _ONE_BY_ONE

    @property
    def is_closed(self) -> bool:
        """Whether the reader is gone."""
        return bool(self._events() & _CLOSED)

    async def write(self, data: bytes) -> None:
        """Raises ClosedPipe if the reader has left before it took everything."""
        if self._is_terminal:
            # Without control characters, so that data can't move the cursor or set the title.
            data = replaced_lines(data.decode("utf-8", "replace")).encode("utf-8", "replace")
        piece = _TERMINAL_PIECE if self._is_terminal else len(data) if self._is_file else _PIPE_PIECE
        for start in range(0, len(data), max(piece, 1)):
            if not self._is_file:
                await self._room()
            self._write_all(data[start : start + piece])
        if self.is_one_by_one:
            await self._room()  # the pipe is writable when all was read; the reader may have left since
            self._lines += 1
            if self._lines == _ONE_BY_ONE and self._usual_size is not None:
                with suppress(OSError):  # otherwise it stays small: slower, but correct
                    fcntl.fcntl(self._descriptor, fcntl.F_SETPIPE_SZ, self._usual_size)

    async def _room(self) -> None:
        """Wait until a piece can be written."""
        while True:
            events = self._events()
            if events & select.POLLOUT:
                return
            if events & _CLOSED:
                raise ClosedPipe
            with anyio.move_on_after(_LOOK_S):
                await anyio.wait_writable(self._descriptor)

    def _events(self) -> int:
        return next((events for _, events in self._poll.poll(0)), 0)

    def _write_all(self, data: bytes) -> None:
        with closed_pipe():
            while data:
                data = data[os.write(self._descriptor, data) :]

    def _shrink(self) -> int | None:
        """Shrink the pipe, and return its size before; None if it can't be changed, or contains more already."""
        try:
            usual = fcntl.fcntl(self._descriptor, fcntl.F_GETPIPE_SZ)
            fcntl.fcntl(self._descriptor, fcntl.F_SETPIPE_SZ, _PIPE_PIECE)
        except (AttributeError, OSError):
            return None
        return usual
