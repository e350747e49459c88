"""What the parts of a running handler need of the whole: where records come from, and whether it goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from kshare.client.record import ShareRecord


class Clocks(NamedTuple):
    loop: Callable[[], float]
    """The event loop's time, in seconds."""
    wall: Callable[[], float]
    """The time of day, in seconds since 1970: copies are due at one."""


class RecordSource(Protocol):
    """Where records come from."""

    @property
    def can_renew(self) -> bool:
        """Whether locks can be renewed."""
        ...

    def release_unseen(self, record: ShareRecord) -> bool:
        """Release a record that nobody has tried. Returns False if its lock was lost."""
        ...

    def check_leases(self) -> None:
        """Look for locks that have expired."""
        ...


class Host(RecordSource, Protocol):
    """A running handler."""

    @property
    def is_stopping(self) -> bool:
        """Whether it acquires nothing more: batches aren't waited for any longer."""
        ...

    @property
    def is_stuck(self) -> bool:
        """Whether no slot can start anything."""
        ...

    def is_idle(self) -> bool:
        """Whether everything that may be processed now is done."""
        ...

    def wake(self) -> None:
        """Let a slot start, if it may."""
        ...

    def on_admission(self) -> None:
        """The handler stops, or goes on."""
        ...

    async def look_for_limits(self) -> None:
        """Bring the limits of its group up to date."""
        ...
