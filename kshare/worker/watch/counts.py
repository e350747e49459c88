"""What a handler has done so far, in numbers that only increase."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """Records, not runs: a batch counts each of its records."""

    done: int = 0
    """The handler returned, and the record was accepted."""
    filtered: int = 0
    """Accepted without the handler."""
    failed: int = 0
    """The handler raised."""
    held: int = 0
    """Held by the worker for another attempt."""
    moved: int = 0
    """Moved to a retry topic."""
    dead: int = 0
    """Rejected, with a dead letter if the handler has a topic for them."""
    released: int = 0
    """Handed back to the group."""
    cancelled: int = 0
    """The handler was cancelled."""
    lost: int = 0
    """The lock was lost before the record was settled."""
