"""Ctrl-C while many seeds are simulated: those that were begun end first, so that the totals are right.

Nothing is raised, because simulated programs catch what interrupts them. The second Ctrl-C ends the process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from types import FrameType


class Interrupts:
    """Takes SIGINT and SIGTERM from now on."""

    def __init__(self) -> None:
        self.exit_code: int | None = None
        """Once there was one: no further seed should be begun."""
        self.before_exit: Callable[[], None] = lambda: None
        """What to do when the process is to end at once."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    @property
    def is_asked(self) -> bool:
        return self.exit_code is not None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.is_asked:
            self.before_exit()
            _end(128 + number)
        self.exit_code = 128 + number
        # Not `print`, which may be what the signal has interrupted.
        os.write(
            1, b"interrupted: seeds that were begun end first (which may take a minute; again: end at once)\n"
        )


def end_at_once() -> None:
    """On SIGINT and SIGTERM, from now on: for what has no totals to tell."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        os.write(2, b"tools/simulate: interrupted\n")
        _end(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)


def _end(code: int) -> None:
    for process in multiprocessing.active_children():
        process.kill()
    os._exit(code)


def leave_to_parent() -> None:
    """In a process of a pool: Ctrl-C reaches all processes of a terminal."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
