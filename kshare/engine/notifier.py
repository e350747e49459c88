"""Wakes the tasks that wait for it. It has no state.

To wait for a change, call `next()` before you check the current state, so that no change in between is missed. All
tasks of a consumer are in one event loop; `send` is called there.
"""

from __future__ import annotations

import anyio


class Notifier:
    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: anyio.Event | None = None
        """Created when a task asks for it."""

    def send(self) -> None:
        """Wake all tasks that wait, and set the events that `next` has returned."""
        event, self._event = self._event, None
        if event is not None:
            event.set()

    def next(self) -> anyio.Event:
        """Return an event that is set at the next `send`."""
        if self._event is None:
            self._event = anyio.Event()
        return self._event

    async def wait(self) -> None:
        """Wait for the next `send`."""
        await self.next().wait()
