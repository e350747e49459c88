"""What a store answers to a claim."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class ClaimState(Enum):
    CLAIMED = "claimed"
    """The caller has the claim, and runs the function."""
    IN_PROGRESS = "in progress"
    """Another call has it."""
    DONE = "done"
    """The function has run; its result is stored."""


class ClaimAnswer(NamedTuple):
    state: ClaimState
    result: bytes = b""
    """The stored result, if the state is DONE."""
    expires_in: float = 0.0
    """Seconds until the other's claim expires, if the state is IN_PROGRESS."""


CLAIMED = ClaimAnswer(ClaimState.CLAIMED)
