"""Ends commands that run until SIGINT or SIGTERM. While they end, more signals do nothing.

Unlike `anyio.open_signal_receiver`, the handlers stay when the event loop ends: the default ones would interrupt that.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_is_process_of_command = False


class StopSignals:
    """The first signal that arrived, and what is to happen then."""

    def __init__(self) -> None:
        self.first: signal.Signals | None = None
        self._acts: list[Callable[[], object]] = []

    def handle(self, number: int, frame: FrameType | None) -> None:
        if self.first is None:
            self.first = signal.Signals(number)
            for act in self._acts:
                act()

    def then(self, act: Callable[[], object]) -> None:
        """Call this at the first signal, within its handler; at once if there was one."""
        self._acts.append(act)
        if self.first is not None:
            act()

    async def wait(self) -> None:
        """Return at the first signal. For asyncio, which runs all commands that use this."""
        import asyncio  # late, because the start of each command imports this module

        loop, arrived = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(arrived.set)

        self.then(wake)
        await arrived.wait()

    async def call(self, act: Callable[[], object]) -> None:
        """Call this at the first signal, as a task of the event loop."""
        await self.wait()
        act()


def ends_with_command() -> None:
    """This process runs one command. So once that was stopped, signals may be ignored until the process has ended."""
    global _is_process_of_command
    _is_process_of_command = True


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Enter it before the event loop starts, so that asyncio doesn't install a handler of its own for SIGINT.

    Other threads than the main one can't handle signals: there, none arrives.
    """
    signals = StopSignals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before: dict[int, Any] = {number: signal.signal(number, signals.handle) for number in _STOP_SIGNALS}
    try:
        yield signals
    finally:
        is_ending = _is_process_of_command and signals.first is not None
        for number, earlier in before.items():
            # Not with a handler: when Python ends, it lets those signals end it.
            signal.signal(number, signal.SIG_IGN if is_ending else earlier)
