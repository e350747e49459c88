"""A signal: wakes whoever waits for it, and remembers nothing.

Whoever looks at something and then waits for it to change takes `next()` before looking: so no change in between is
missed. All tasks of a consumer are in one event loop; a signal is sent from there.
"""

from __future__ import annotations

import anyio


class Signal:
    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: anyio.Event | None = None
        """Not made before somebody wants to hear of it."""

    def send(self) -> None:
        """To all that wait, or hold what `next` gave."""
        event, self._event = self._event, None
        if event is not None:
            event.set()

    def next(self) -> anyio.Event:
        """Set when it is sent the next time."""
        if self._event is None:
            self._event = anyio.Event()
        return self._event

    async def wait(self) -> None:
        """Until it is sent the next time."""
        await self.next().wait()
