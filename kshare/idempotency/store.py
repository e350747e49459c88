"""What a store of idempotency keys can do, and what it responds. `entry.py` has the rules that all stores follow."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol


class ClaimState(Enum):
    CLAIMED = "claimed"
    """The caller has the claim, and runs the function."""
    IN_PROGRESS = "in progress"
    """Another call has it."""
    DONE = "done"
    """The function has run; its result is stored."""


class ClaimResponse(NamedTuple):
    state: ClaimState
    result: bytes = b""
    """The stored result, if the state is DONE."""
    expires_in: float = 0.0
    """Seconds until the other's claim expires, if the state is IN_PROGRESS."""


CLAIMED = ClaimResponse(ClaimState.CLAIMED)


class IdempotencyStore(Protocol):
    """Keeps claims and results. Keys are 64 hexadecimal digits, owners 32.

    Each method is atomic, ends within a deadline of its own, and raises if it fails: then nothing counts as done. If it
    has certainly changed nothing, it should raise StoreFailed with is_open=False: then it isn't called again to remove
    a claim. It may be called on several event loops, and on asyncio as well as trio.
    """

    async def claim(self, key: str, owner: str, seconds: float) -> ClaimResponse:
        """Claim the key for this long, unless it is claimed or done."""
        ...

    async def finish(self, key: str, owner: str, result: bytes, seconds: float) -> bool:
        """Store the result for this long. Returns False, and stores nothing, if another owner has the key."""
        ...

    async def abandon(self, key: str, owner: str) -> None:
        """Remove the owner's claim, if it still has one."""
        ...

    async def purge(self) -> int:
        """Delete what has expired. Returns how many entries it deleted."""
        ...
